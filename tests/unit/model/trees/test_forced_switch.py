"""Distributors leave leaves that are gone: random trees, orders, crashes and outages; nothing is lost or doubled."""

from __future__ import annotations

import random
import uuid
from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isthmus.model.copyflags import add_flag, distributor_producer_id, is_done_with, is_to_copy
from isthmus.model.naming import SourceTopic
from isthmus.model.trees.switching import (
    AHEAD_RECORDS,
    Allowance,
    LaneBegin,
    LeftAt,
    TargetChoice,
    allowances,
    begin_of,
)
from isthmus.model.trees.tree import Distributor, Tree, node_of
from tests.unit.model.treeshapes import shaped

TOPIC, TOPIC_ID = SourceTopic("x"), uuid.UUID(int=7)


class Message(NamedTuple):
    """The `number`-th message of the producer at a cluster: its flags, the id of who wrote it where it is, and who
    brought it from which offset.
    """

    producer: str
    number: int
    flags: int = 0
    producer_id: int = 1
    brought_by: str = ""
    source_offset: int = -1


@dataclass
class World:
    """The logs of all clusters, and what the ledgers at the sources say: choices of leaves, and how far distributors
    may go. Copy flags are told by `way`. Where a distributor is at a leaf is volatile, and found again in that leaf's
    log. Clusters that are `down` neither take nor give. `orphans` are those that nobody could end, as their leaf was
    gone: how far each was, and how far it was allowed to go. `hasty` are those that ever went over without waiting.
    """

    tree: Tree
    logs: dict[str, list[Message]]
    choices: dict[str, TargetChoice]
    way: str = "header"
    stated: dict[str, tuple[str, tuple[Allowance, ...]]] = field(default_factory=dict)
    cursors: dict[tuple[str, str], int] = field(default_factory=dict)
    orphans: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    down: set[str] = field(default_factory=set)
    is_resending: bool = False
    producer_ids: dict[tuple[str, str], int] = field(default_factory=dict)
    hasty: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, tree: Tree, way: str = "header") -> World:
        choices = {each.name: TargetChoice(target=each.target, wanted=each.target) for each in tree.distributors}
        return cls(tree, {cluster: [] for cluster in tree.clusters}, choices, way)

    def produce(self, cluster: str) -> None:
        if cluster not in self.down:
            number = sum(message.producer == cluster for message in self.logs[cluster])
            self.logs[cluster].append(Message(cluster, number))

    def cursor(self, each: Distributor) -> int:
        choice = self.choices[each.name]
        key = each.name, choice.leaf
        begins = (choice.finishing or choice).begins
        if key not in self.cursors:
            brought = [one.source_offset for one in self.logs[choice.leaf] if one.brought_by == each.name]
            self.cursors[key] = max((offset + 1 for offset in brought), default=0)
        self.cursors[key] = max(self.cursors[key], begin_of(begins, TOPIC, TOPIC_ID, 0))
        return self.cursors[key]

    def crash(self, each: Distributor) -> None:
        self.cursors.pop((each.name, self.choices[each.name].leaf), None)

    def end_of(self, each: Distributor) -> int:
        """The offset from which on it may copy nothing now."""
        choice, log_end = self.choices[each.name], len(self.logs[each.cluster])
        if choice.finishing is not None:
            return begin_of(choice.finishing.ends, TOPIC, TOPIC_ID, 0)
        if len(each.leaves) == 1:
            return log_end
        target, lanes = self.stated.get(each.name, ("", ()))
        return min(log_end, lanes[0].end) if target == choice.target else 0

    def state(self, each: Distributor, ahead: int) -> None:
        """Say how far it may go; whoever has it leave its target forbids that."""
        choice = self.choices[each.name]
        if choice.bars(choice.target) or {each.cluster, choice.target} & self.down:
            return
        target, known = self.stated.get(each.name, ("", ()))
        place = LaneBegin(TOPIC, TOPIC_ID, 0, self.cursor(each))
        lanes, _ = allowances(known if target == choice.target else (), [place], {}, ahead_min=ahead)
        self.stated[each.name] = choice.target, lanes

    def distribute(self, each: Distributor, count: int) -> None:
        choice = self.choices[each.name]
        if {each.cluster, choice.leaf} & self.down:
            return
        begin = self.cursor(each)
        self.cursors[each.name, choice.leaf] = self.copy(
            each, choice.leaf, begin, min(begin + count, self.end_of(each))
        )

    def copy(self, each: Distributor, leaf: str, begin: int, end: int) -> int:
        """Copy a part of the source's log, and tell how far it came."""
        key = each.name, leaf
        producer_id = self.producer_ids.setdefault(key, distributor_producer_id(each.level, len(self.producer_ids)))
        for offset in range(begin, end):
            message = self.logs[each.cluster][offset]
            if self.is_to_copy(message, each.level):
                flags = add_flag(message.flags, each.level)
                copy = message._replace(
                    flags=flags, producer_id=producer_id, brought_by=each.name, source_offset=offset
                )
                self.logs[leaf].append(copy)
        return max(begin, end)

    def is_to_copy(self, message: Message, level: int) -> bool:
        if self.way == "header":
            return is_to_copy(message.flags, level)
        return not is_done_with(message.producer_id, level)

    def go_on(self, each: Distributor, count: int) -> None:
        """Have those go on that nobody could end, where the source's ledger does not bar them; whoever is at that leaf
        again has fenced them there.
        """
        choice = self.choices[each.name]
        for leaf in each.leaves:
            if choice.target == leaf and not choice.is_under_way:
                self.orphans.pop((each.name, leaf), None)
            found = self.orphans.get((each.name, leaf))
            if found is not None and not choice.bars(leaf) and not {each.cluster, leaf} & self.down:
                begin, end = found
                reached = self.copy(each, leaf, begin, min(begin + count, end, len(self.logs[each.cluster])))
                self.orphans[each.name, leaf] = reached, end

    def switch(self, each: Distributor, leaf: str) -> None:
        """Go over in good order, as far as offsets go: the order of messages is looked at elsewhere."""
        choice = self.choices[each.name]
        if {each.cluster, choice.target} & self.down or choice.finishes or choice.is_forced or choice.doubt(leaf):
            return
        if leaf != choice.target:
            begin = LaneBegin(TOPIC, TOPIC_ID, 0, self.cursor(each))
            self.choices[each.name] = choice.ask_for(leaf).over([begin])
            self.hasty.add(each.name)

    def force(self, each: Distributor, leaf: str) -> None:
        """From now on no more is stated; what was already known of goes on for a while."""
        choice = self.choices[each.name]
        is_known = self.stated.get(each.name, ("", ()))[0] == choice.target
        if each.cluster not in self.down and is_known and leaf != choice.target and not choice.doubt(leaf):
            self.orphans[each.name, choice.target] = self.cursor(each), self.stated[each.name][1][0].end
            self.choices[each.name] = choice.ask_for(leaf, is_forced=True, is_resent=self.is_resending)
            self.hasty.add(each.name)

    def leave(self, each: Distributor) -> None:
        choice = self.choices[each.name]
        if choice.is_forced and each.cluster not in self.down:
            ends = {(TOPIC, 0): LeftAt(len(self.logs[each.cluster]))}
            self.choices[each.name] = choice.leave(self.stated[each.name][1], ends)

    def go_back(self, each: Distributor) -> None:
        """To a leaf that lacks something and is there; on from one that is gone again, or lacks nothing any more."""
        choice = self.choices[each.name]
        if each.cluster in self.down or choice.is_forced:
            return
        if choice.finishes:
            if choice.finishes in self.down:
                self.choices[each.name] = choice.going_back("")
            elif self.cursor(each) >= self.end_of(each):
                self.choices[each.name] = choice.reconcile()
        elif leaf := next((doubt.leaf for doubt in choice.doubts if doubt.leaf not in self.down), ""):
            self.choices[each.name] = choice.going_back(leaf)

    def end(self) -> None:
        """All clusters are there again, and go on until nobody has anything to do."""
        self.down.clear()
        while True:
            before = (dict(self.choices), {cluster: len(log) for cluster, log in self.logs.items()}, dict(self.cursors))
            for each in self.tree.distributors:
                self.leave(each)
                self.go_on(each, AHEAD_RECORDS)
                self.state(each, AHEAD_RECORDS)
                self.distribute(each, AHEAD_RECORDS)
                self.go_back(each)
            if before == (self.choices, {cluster: len(log) for cluster, log in self.logs.items()}, self.cursors):
                return

    def counts(self, cluster: str) -> Counter[tuple[str, int]]:
        return Counter((message.producer, message.number) for message in self.logs[cluster])

    def may_be_late(self, cluster: str, producer: str) -> bool:
        """Whether one that went over without waiting brought messages of a producer into the subtree of a cluster."""
        return any(
            (message.producer, message.brought_by) == (producer, each.name)
            for each in self.tree.distributors
            if each.name in self.hasty and cluster in each.leaves
            for leaf in each.leaves
            for message in self.logs[leaf]
        )

    def check_order(self) -> None:
        """All other messages are in the order of their producer."""
        for cluster, log in self.logs.items():
            for producer in {message.producer for message in log}:
                numbers = [message.number for message in log if message.producer == producer]
                assert numbers == sorted(numbers) or self.may_be_late(cluster, producer), (cluster, producer)


def run(seed: int, count: int, way: str, *, is_resending: bool = False) -> World:
    chance = random.Random(seed)
    written = shaped(chance, [f"c{number}" for number in range(count)])
    world = World.of(Tree(name="t", root=node_of(written)), way)
    world.is_resending = is_resending
    for _ in range(chance.randint(40, 240)):
        each = chance.choice(world.tree.distributors)
        what = chance.random()
        if what < 0.3:
            world.produce(chance.choice(world.tree.clusters))
        elif what < 0.6:
            world.state(each, chance.randint(1, 4))
            world.distribute(each, chance.randint(1, 4))
            world.go_on(each, chance.randint(1, 4))
        elif what < 0.66:
            world.crash(each)
        elif what < 0.72:
            world.down ^= {chance.choice(world.tree.clusters)}
        elif what < 0.78:
            world.force(each, chance.choice(each.leaves))
        elif what < 0.84:
            world.switch(each, chance.choice(each.leaves))
        elif what < 0.92:
            world.leave(each)
        else:
            world.go_back(each)
    world.end()
    return world


@pytest.mark.parametrize("way", ["header", "producer-id"])
@settings(max_examples=150)
@given(seed=st.integers(0, 2**32), count=st.integers(3, 9))
def test_nothing_is_lost_or_doubled(way: str, seed: int, count: int) -> None:
    """Whoever is gone when, also while it gets what it lacks; whatever a lane has sent that nobody heard of; and
    whatever has crashed: every message is once on every cluster when all are back, and no leaf is in doubt any more.
    Where none went over without waiting, the order of every producer is kept.
    """
    world = run(seed, count, way)
    everything = {message for cluster in world.logs for message in world.counts(cluster)}
    for cluster in world.logs:
        assert world.counts(cluster) == Counter(dict.fromkeys(everything, 1)), cluster
    assert not any(choice.doubts or choice.finishes for choice in world.choices.values())
    world.check_order()


@pytest.mark.parametrize("way", ["header", "producer-id"])
@settings(max_examples=50)
@given(seed=st.integers(0, 2**32), count=st.integers(3, 9))
def test_what_is_sent_again_is_not_lost(way: str, seed: int, count: int) -> None:
    """With the word of an operator that a leaf stays away: messages may come twice, and none is missing."""
    world = run(seed, count, way, is_resending=True)
    everything = {message for cluster in world.logs for message in world.counts(cluster)}
    assert all(world.counts(cluster).keys() == everything for cluster in world.logs)
    world.check_order()


def test_what_was_sent_and_not_heard_of_is_not_sent_again() -> None:
    """Why the other leaf begins at what was stated, and not at what was acknowledged: a message would come twice."""
    world = World.of(Tree(name="t", root=node_of([["c1", "c2"], ["c3", "c4"]])))
    (up,) = (each for each in world.tree.distributors if (each.cluster, each.level) == ("c1", 2))
    for _ in range(5):
        world.produce("c1")
    world.state(up, 3)
    world.distribute(up, 2)
    world.down.add("c3")
    world.force(up, "c4")
    world.leave(up)
    choice = world.choices[up.name]
    (doubt,) = choice.doubts
    assert (choice.target, choice.begins[0].offset, doubt.leaf, doubt.records_max) == ("c4", 3, "c3", 3)
    world.state(up, 9)
    world.distribute(up, 9)
    assert [message.number for message in world.logs["c4"]] == [3, 4]
    world.end()
    assert all(sorted(message.number for message in log) == [0, 1, 2, 3, 4] for log in world.logs.values())
    # What was in doubt comes late to the other leaves of the subtree, behind what was sent there since.
    assert [message.number for message in world.logs["c4"]][:2] == [3, 4]


def test_how_far_ahead_is_stated() -> None:
    """As far as lanes come in ten seconds, said when half of it is used up; nothing that was said is taken back."""
    place = LaneBegin(TOPIC, TOPIC_ID, 0, 100)
    first, is_due = allowances((), [place], {})
    assert (first, is_due) == ((Allowance(TOPIC, TOPIC_ID, 0, 100, 100 + AHEAD_RECORDS),), True)
    assert not allowances(first, [place._replace(offset=4_000)], {})[1]
    key = (TOPIC, 0)
    fast, is_due = allowances(first, [place._replace(offset=4_000)], {key: 50_000.0})
    assert (fast[0].end, is_due) == (504_000, True)
    slow, is_due = allowances(fast, [place._replace(offset=50)], {})
    assert (slow[0].position, slow[0].end, is_due) == (4_000, 504_000, False)
    used_up, is_due = allowances(first, [place._replace(offset=first[0].end)], {})
    assert (used_up[0].end - first[0].end, is_due) == (8 * AHEAD_RECORDS, True)
    anew, is_due = allowances(fast, [LaneBegin(TOPIC, uuid.UUID(int=8), 0, 0)], {})
    assert (anew[0].position, anew[0].end, is_due) == (0, AHEAD_RECORDS, True)
    gone, is_due = allowances(fast, [], {})
    assert (gone, is_due) == (fast, False)
