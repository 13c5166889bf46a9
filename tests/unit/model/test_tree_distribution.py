"""Random trees, orders, crashes and switches: every message once on every cluster, in its producer's order."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from isthmus.model.copyflags import FlagsHeader, copied, is_to_copy
from isthmus.model.tree import Distributor, Tree, node_of


class Message(NamedTuple):
    """The `number`-th message of the producer at a cluster, as a log has it: who brought it, from which offset."""

    producer: str
    number: int
    flags: int = 0
    brought_by: str = ""
    source_offset: int = -1


@dataclass
class World:
    """The logs of all clusters, and the distributors with what they know.

    A cursor is volatile: after a crash it is found again in the target's log, as mapped lanes find it, or where the
    ledger of the source has it, which is written when a target is switched.
    """

    tree: Tree
    logs: dict[str, list[Message]]
    cursors: dict[str, int] = field(default_factory=dict)
    switched_at: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, tree: Tree) -> World:
        return cls(tree, {cluster: [] for cluster in tree.clusters})

    def produce(self, cluster: str) -> None:
        number = sum(message.producer == cluster for message in self.logs[cluster])
        self.logs[cluster].append(Message(cluster, number))

    def distribute(self, each: Distributor, count: int) -> None:
        """The next records of a distributor's cluster: those that are to be copied are appended at its target."""
        log, cursor = self.logs[each.cluster], self.cursors.get(each.name, 0)
        for offset in range(cursor, min(cursor + count, len(log))):
            message = log[offset]
            if is_to_copy(message.flags, each.level):
                flags = copied(message.flags, each.level)
                copy = message._replace(flags=flags, brought_by=each.name, source_offset=offset)
                self.logs[each.target].append(copy)
            self.cursors[each.name] = offset + 1

    def crash(self, each: Distributor) -> None:
        """It forgets where it was, and finds its place by what it brought."""
        brought = [message.source_offset for message in self.logs[each.target] if message.brought_by == each.name]
        self.cursors[each.name] = max([self.switched_at.get(each.name, 0), *(offset + 1 for offset in brought)])

    def drain(self) -> None:
        """Go on until nobody has work."""
        while any(self.cursors.get(each.name, 0) < len(self.logs[each.cluster]) for each in self.tree.distributors):
            for each in self.tree.distributors:
                self.distribute(each, 1_000)

    def switch(self, each: Distributor, target: str) -> None:
        """Have a distributor go on with another leaf; where it was is written down first."""
        self.switched_at[each.name] = self.cursors.get(each.name, 0)
        chosen = {**self.tree.switched, (each.cluster, each.level, each.leaves): target}
        self.tree = replace(self.tree, switched=chosen)

    def check(self) -> None:
        everything = {(message.producer, message.number) for log in self.logs.values() for message in log}
        for cluster, log in self.logs.items():
            seen = [(message.producer, message.number) for message in log]
            assert len(seen) == len(set(seen)), f"{cluster} has a message twice"
            assert set(seen) == everything, f"{cluster} lacks a message"
            for producer in self.tree.clusters:
                numbers = [number for name, number in seen if name == producer]
                assert numbers == sorted(numbers), f"{cluster} has another order than {producer}"


def shaped(chance: random.Random, clusters: list[str]) -> Any:
    """A random nesting of clusters, with two to four parts to a node, and levels that are sometimes stated."""
    if len(clusters) == 1:
        return clusters[0]
    parts = min(chance.choice([2, 2, 2, 3, 4]), len(clusters))
    cuts = sorted(chance.sample(range(1, len(clusters)), parts - 1))
    return [shaped(chance, clusters[begin:end]) for begin, end in zip([0, *cuts], [*cuts, len(clusters)], strict=True)]


@settings(max_examples=300)
@given(seed=st.integers(0, 2**32), count=st.integers(2, 12))
def test_every_message_once_on_every_cluster(seed: int, count: int) -> None:
    """Whatever the tree, whoever is fast or slow, however often a distributor crashes, and wherever it goes on."""
    chance = random.Random(seed)
    written = shaped(chance, [f"c{number}" for number in range(count)])
    if chance.random() < 0.3:
        written = {"level": chance.randint(count, count + 3), "clusters": written}
    world = World.of(Tree(name="t", root=node_of(written), header=FlagsHeader(width_bytes=2)))
    for _ in range(chance.randint(20, 120)):
        each = chance.choice(world.tree.distributors)
        what = chance.random()
        if what < 0.3:
            world.produce(chance.choice(world.tree.clusters))
        elif what < 0.85:
            world.distribute(each, chance.randint(1, 4))
        elif what < 0.95:
            world.crash(each)
        else:
            # In good order: what was sent before is everywhere before the other leaf gets anything.
            world.drain()
            world.switch(each, chance.choice(each.leaves))
    world.drain()
    world.check()


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
    world.drain()
    assert [message.number for message in world.logs["c4"]] == [1, 0]
    # Nothing is lost or doubled by it.
    assert all(sorted(message.number for message in log) == [0, 1] for log in world.logs.values())
