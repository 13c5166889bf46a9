"""Random trees, orders, crashes and switches: every message once on every cluster, in its producer's order."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isthmus.errors import GateNotMet, PlanRefused
from isthmus.model.copyflags import FlagsHeader, add_flag, distributor_producer_id, is_done_with, is_to_copy
from isthmus.model.trees.reshaping import TreeShape, add_cluster, become, check_empty, last_with, remove_cluster
from isthmus.model.trees.switching import TargetChoice
from isthmus.model.trees.tree import Distributor, Tree, node_of
from tests.unit.model.treeshapes import shaped


class Message(NamedTuple):
    """The `number`-th message of the producer at a cluster, as a log has it: its flags, the id of who wrote it there,
    who brought it, and from which offset.
    """

    producer: str
    number: int
    flags: int = 0
    producer_id: int = 1
    brought_by: str = ""
    source_offset: int = -1


@dataclass
class GoingOver:
    """What is known of a distributor that goes over: volatile, and found out anew after a crash."""

    wanted: str
    hops: tuple[Distributor, ...] = ()
    ends: dict[str, int] = field(default_factory=dict)
    passed: set[str] = field(default_factory=set)


@dataclass
class World:
    """The logs of all clusters, and the distributors with what they know. Copy flags are told by `way`.

    A cursor is volatile: after a crash it is found again in the target's log, as mapped lanes find it, or where the
    ledger of the source has it, which is written when a target has been switched.
    """

    tree: Tree
    logs: dict[str, list[Message]]
    way: str = "header"
    cursors: dict[str, int] = field(default_factory=dict)
    begins: dict[str, int] = field(default_factory=dict)
    formers: dict[str, tuple[str, ...]] = field(default_factory=dict)
    going: dict[str, GoingOver] = field(default_factory=dict)
    producer_ids: dict[tuple[str, str], int] = field(default_factory=dict)
    spent: frozenset[int] = frozenset()
    left: dict[str, set[tuple[str, int]]] = field(default_factory=dict)
    kept: dict[str, list[Message]] = field(default_factory=dict)
    shape: TreeShape | None = None
    names: Iterator[int] = field(default_factory=count)

    @classmethod
    def of(cls, tree: Tree, way: str = "header") -> World:
        return cls(tree, {cluster: [] for cluster in tree.clusters}, way)

    def produce(self, cluster: str) -> None:
        log = self.logs[cluster]
        if self.left.get(cluster, set()) <= {(message.producer, message.number) for message in log}:
            # One that has come back produces again once it has what it had.
            self.logs[cluster].append(Message(cluster, sum(message.producer == cluster for message in log)))

    def is_to_copy(self, message: Message, level: int) -> bool:
        if self.way == "header":
            return is_to_copy(message.flags, level)
        return not is_done_with(message.producer_id, level)

    def distribute(self, each: Distributor, count: int) -> None:
        """The next records of a distributor's cluster: those that are to be copied are appended at its target."""
        log, cursor = self.logs[each.cluster], self.cursors.get(each.name, 0)
        key = each.name, each.target
        producer_id = self.producer_ids.setdefault(key, distributor_producer_id(each.level, len(self.producer_ids)))
        for offset in range(cursor, min(cursor + count, len(log)) if each.name not in self.going else cursor):
            message = log[offset]
            if self.is_to_copy(message, each.level):
                flags = add_flag(message.flags, each.level)
                copy = message._replace(
                    flags=flags, producer_id=producer_id, brought_by=each.name, source_offset=offset
                )
                self.logs[each.target].append(copy)
            self.cursors[each.name] = offset + 1

    def crash(self, each: Distributor) -> None:
        """It forgets where it was and what it waits for, and finds its place by what it brought to this target."""
        brought = [message.source_offset for message in self.logs[each.target] if message.brought_by == each.name]
        self.cursors[each.name] = max([self.begins.get(each.name, 0), *(offset + 1 for offset in brought)])
        if each.name in self.going:
            self.going[each.name] = GoingOver(self.going[each.name].wanted)

    def end(self) -> None:
        """Go on until nobody has work, and nobody goes over any more."""
        while self.going or any(
            self.cursors.get(each.name, 0) < len(self.logs[each.cluster]) for each in self.tree.distributors
        ):
            for each in self.tree.distributors:
                self.distribute(each, 1_000)
                self.go_over(each)

    def go_over(self, each: Distributor) -> None:
        """The next look of one that is to go over: hop by hop through the subtree, and at the end the other leaf."""
        if each.name not in self.going:
            return
        hops = self.tree.onward(each.target, each.level)
        if hops != self.going[each.name].hops:
            # Some of them have gone over themselves.
            self.going[each.name] = GoingOver(self.going[each.name].wanted, hops)
        going = self.going[each.name]
        going.ends.setdefault(each.target, len(self.logs[each.target]))
        for hop in hops:
            if hop.name in going.passed:
                continue
            if self.cursors.get(hop.name, 0) < going.ends[hop.cluster]:
                return
            going.passed.add(hop.name)
            going.ends.setdefault(hop.target, len(self.logs[hop.target]))
        self.switch(each, going.wanted)
        del self.going[each.name]

    def ask(self, each: Distributor, wanted: str) -> None:
        """Another leaf is wanted; the present one takes it back."""
        self.going.pop(each.name, None)
        if wanted != each.target:
            self.going[each.name] = GoingOver(wanted)

    def switch(self, each: Distributor, target: str) -> None:
        """Have a distributor go on with another leaf; where it was is written down with it."""
        self.begins[each.name] = self.cursors.get(each.name, 0)
        self.formers[each.name] = (*self.formers.get(each.name, ()), each.target)
        chosen = {**self.tree.switched, (each.cluster, each.level, each.leaves): target}
        self.tree = replace(self.tree, switched=chosen)

    def change(self, chance: random.Random) -> None:
        """A cluster comes in, or one whose producer has stopped leaves, if it may; others stay at their targets. One
        that comes back may have its topics still.
        """
        choices = self.choices()
        try:
            if chance.random() < 0.6:
                how = chance.choice(["above", "beside", "among"])
                one = chance.choice(self.tree.clusters)
                beside, among = (one if how == word else None for word in ("beside", "among"))
                # A new one, or one that has left: nobody knows what it had.
                gone = sorted(self.left.keys() - self.logs.keys())
                name = chance.choice(gone) if gone and chance.random() < 0.5 else f"x{next(self.names)}"
                found = add_cluster(self.tree, choices, name, beside=beside, among=among, spent=self.spent)
                kept = [log] if (log := self.kept.get(name)) is not None and chance.random() < 0.5 else []
                if last_with(self.shape, name) is not None:
                    check_empty("t", name, ["x" for _ in kept])
                self.logs[name] = kept[0] if kept else []
                for each in found.begun:
                    for known in (self.cursors, self.begins):
                        known.pop(each.name, None)
            else:
                leaving = chance.choice(self.tree.clusters)
                found = remove_cluster(self.tree, choices, leaving, spent=self.spent)
                own = [each for each in self.tree.distributors if each.cluster == leaving]
                if any(self.cursors.get(each.name, 0) < len(self.logs[leaving]) for each in own):
                    return
                self.kept[leaving] = self.logs.pop(leaving)
                self.left[leaving] = {(each.producer, each.number) for each in self.kept[leaving]}
        except (PlanRefused, GateNotMet):
            return
        targets = {name: each.target for name, each in {**choices, **found.pins}.items()}
        switched = {
            (each.cluster, each.level, each.leaves): targets[each.name]
            for each in found.after.distributors
            if targets.get(each.name) in each.leaves
        }
        self.tree, self.spent = replace(found.after, switched=switched), found.spent
        self.shape = become(found, self.shape)
        for each in found.ended:
            self.going.pop(each.name, None)

    def choices(self) -> dict[str, TargetChoice]:
        """What has been chosen for distributors, as the ledgers of their clusters have it."""
        return {
            each.name: TargetChoice(
                target=each.target,
                wanted=self.going[each.name].wanted if each.name in self.going else each.target,
                former=self.formers.get(each.name, ()),
            )
            for each in self.tree.distributors
            if each.name in self.going or (each.cluster, each.level, each.leaves) in self.tree.switched
        }

    def check(self) -> None:
        everything = {(message.producer, message.number) for log in self.logs.values() for message in log}
        assert everything >= set().union(*self.left.values()), "a cluster has left with a message that nobody else has"
        for cluster, log in self.logs.items():
            seen = [(message.producer, message.number) for message in log]
            assert len(seen) == len(set(seen)), f"{cluster} has a message twice"
            assert set(seen) == everything, f"{cluster} lacks a message"
            for producer in {name for name, _ in seen}:
                numbers = [number for name, number in seen if name == producer]
                assert numbers == sorted(numbers), f"{cluster} has another order than {producer}"


@pytest.mark.parametrize("way", ["header", "producer-id"])
@settings(max_examples=250)
@given(seed=st.integers(0, 2**32), clusters=st.integers(2, 12))
def test_every_message_once_on_every_cluster(way: str, seed: int, clusters: int) -> None:
    """Whatever the tree, whoever is fast or slow, however often a distributor crashes, and wherever it goes over to
    while everything goes on: also while others of its subtree do, when the wish is taken back, and while clusters come
    into the tree and leave it.
    """
    distribute_over(way, seed, clusters)


@pytest.mark.parametrize("way", ["header", "producer-id"])
@settings(max_examples=4000)
@given(seed=st.integers(0, 2**32), clusters=st.integers(2, 12))
def test_every_message_once_in_thousands_of_trees(way: str, seed: int, clusters: int) -> None:
    """The same, of many more trees, orders, crashes and switches."""
    distribute_over(way, seed, clusters)


def distribute_over(way: str, seed: int, clusters: int) -> None:
    """Have a random tree live through what follows from a seed, and see that every message came everywhere once."""
    chance = random.Random(seed)
    written = shaped(chance, [f"c{number}" for number in range(clusters)])
    if chance.random() < 0.3:
        written = {"level": chance.randint(clusters, clusters + 3), "clusters": written}
    world = World.of(Tree(name="t", root=node_of(written), header=FlagsHeader(width_bytes=2)), way)
    for _ in range(chance.randint(20, 160)):
        each = chance.choice(world.tree.distributors)
        what = chance.random()
        if what < 0.3:
            world.produce(chance.choice(world.tree.clusters))
        elif what < 0.75:
            world.distribute(each, chance.randint(1, 4))
        elif what < 0.82:
            world.crash(each)
        elif what < 0.9:
            world.ask(each, chance.choice(each.leaves))
        elif what < 0.97:
            for one in world.tree.distributors:
                world.go_over(one)
        else:
            world.change(chance)
    for _ in range(chance.choice([0, 0, 8])):
        # Whoever has nothing left to do may leave, and come back.
        world.end()
        world.change(chance)
    world.end()
    world.check()


def test_what_a_cluster_still_has_would_come_once_more() -> None:
    """Why one that comes back has to have no topics of the tree: under its new level nobody knows what it brought."""
    two = [{"level": 3, "clusters": [*pair]} for pair in ("ab", "cd")]
    world = World.of(Tree(name="t", root=node_of({"level": 5, "clusters": two})))
    world.produce("b")
    world.end()
    left = remove_cluster(world.tree, {"t.d.5": TargetChoice(target="a", wanted="a")}, "b")
    back = add_cluster(left.after, left.pins, "b", beside="d", spent=left.spent)
    world.tree = back.after
    for each in back.begun:
        world.cursors.pop(each.name, None)
    world.end()
    assert [message.number for message in world.logs["d"]] == [0, 0]


def test_a_switch_that_does_not_wait_loses_the_order() -> None:
    """Why a switch in good order waits for the subtree: the second message overtakes the first one."""
    world = World.of(Tree(name="t", root=node_of([["c1", "c2"], ["c3", "c4"]])))
    (up,) = (each for each in world.tree.distributors if each.cluster == "c1" and each.level == 2)
    world.produce("c1")
    world.distribute(up, 1)
    world.switch(up, "c4")
    world.produce("c1")
    (up,) = (each for each in world.tree.distributors if each.name == up.name)
    world.distribute(up, 1)
    world.end()
    assert [message.number for message in world.logs["c4"]] == [1, 0]
    # Nothing is lost or doubled by it.
    assert all(sorted(message.number for message in log) == [0, 1] for log in world.logs.values())
