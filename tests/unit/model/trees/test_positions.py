"""Positions on their way through a tree: the map's bytes, its rules, and what consumers read who move about."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from isthmus.groups.positions.carrying import Situation, Written, decide
from isthmus.model.kafka.group import Committed
from isthmus.model.naming import SourceTopic
from isthmus.model.trees.positions import (
    PositionEntry,
    PositionKey,
    SeenCommit,
    add_flags,
    entry_in,
    is_news,
    is_to_commit,
    level_in,
    record_of,
    sent_entry,
    split_flags,
)
from isthmus.model.trees.tree import Distributor, Tree, node_of
from tests.unit.model.treeshapes import shaped

MARGIN = 60

texts = st.text(max_size=20)
entries = st.builds(
    PositionEntry,
    timestamp_ms=st.integers(0, 2**60),
    flags=st.integers(0, 2**64 - 1),
    distributor=texts,
    offset=st.integers(-1, 2**60),
    metadata=texts,
)


@given(key=st.builds(PositionKey, texts, texts, st.integers(0, 2**31)), entry=entries)
@example(key=PositionKey('a|b"\ud83d', SourceTopic("t|1"), 0), entry=PositionEntry(timestamp_ms=1))
def test_what_is_written_is_read(key: PositionKey, entry: PositionEntry) -> None:
    """Whatever characters names hold; the key is a list of three and the value has the names that are documented."""
    record = record_of(key, entry)
    assert entry_in(*record) == (key, entry)
    assert json.loads(record.key) == list(key)
    assert json.loads(record.value).keys() == {"timestamp_ms", "flags", "distributor", "offset", "metadata"}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"", b"{}"),
        (b'["g","t"]', b'{"timestamp_ms":1}'),
        (b'["g","t",true]', b'{"timestamp_ms":1}'),
        (b'["g","t",0]', b'{"flags":1}'),
        (b'["g","t",0]', b'{"timestamp_ms":1.5}'),
        (b'["g","t",0]', b'{"timestamp_ms":1,"flags":-1}'),
        (b'["g","t",0]', b'{"timestamp_ms":1,"metadata":[]}'),
        (b'["g","t",0]', b"[]"),
        (b"\xff", b"\xff"),
    ],
)
def test_what_is_no_entry_is_told(key: bytes, value: bytes) -> None:
    """Anybody may write to the topic."""
    with pytest.raises(ValueError):  # noqa: PT011 - of JSON, of UTF-8, or ours
        entry_in(key, value)


def test_others_entries_need_a_time_and_flags_only() -> None:
    """What the seed has in its map is enough."""
    assert entry_in(b'["g","t",3]', b'{"timestamp_ms":7,"flags":4}') == (
        PositionKey("g", SourceTopic("t"), 3),
        PositionEntry(timestamp_ms=7, flags=4),
    )


@given(own=st.text(max_size=30), flags=st.integers(1, 2**64 - 1))
def test_metadata_of_consumers_stays(own: str, flags: int) -> None:
    """Flags stand in front of it and come off again; without them it is all the consumer's."""
    assert split_flags(add_flags(own, flags)) == (own, flags)
    assert split_flags(own)[1] == 0 or own.startswith("copy-flags=")


def test_who_has_read_on_has_not_gone_back() -> None:
    """A record may be older than the one before it: the time that is sent stays."""
    there = PositionEntry(timestamp_ms=100, flags=1, distributor="l", offset=7)
    older = SeenCommit(timestamp_ms=90, offset=8)
    assert sent_entry("l", 1, older, None, there) == PositionEntry(timestamp_ms=100, flags=1, distributor="l", offset=8)
    back = sent_entry("l", 1, SeenCommit(timestamp_ms=90, offset=6), None, there)
    assert back is not None
    assert (back.timestamp_ms, is_news(back, there)) == (90, True)


def test_a_distributor_leaves_alone_what_was_distributed() -> None:
    """By its own flag or a lower one, of a commit as of an entry; higher ones let it pass, with its own added."""
    for flags in (0b001, 0b010, 0b011):
        assert sent_entry("l", 2, SeenCommit(timestamp_ms=1, offset=1, flags=flags), None, None) is None
        assert sent_entry("l", 2, None, PositionEntry(timestamp_ms=1, flags=flags), None) is None
    passed = sent_entry("l", 2, None, PositionEntry(timestamp_ms=1, flags=0b100, distributor="up", metadata="m"), None)
    assert passed == PositionEntry(timestamp_ms=1, flags=0b110, distributor="l", metadata="m")
    assert (level_in(0b110), level_in(0b1), level_in(0)) == (2, 1, 0)


def test_the_map_says_better_what_a_distributor_committed() -> None:
    """The time of the message at such a position says no more than the entry it was made of; alone it has to do."""
    here = PositionEntry(timestamp_ms=50, flags=0b100, distributor="up")
    commit = SeenCommit(timestamp_ms=90, offset=8, flags=0b100)
    sent = [sent_entry("l", 1, commit, entry, None) for entry in (here, None)]
    assert [each and (each.timestamp_ms, each.flags) for each in sent] == [(50, 0b101), (90, 0b101)]
    by_a_consumer = sent_entry("l", 1, SeenCommit(timestamp_ms=90, offset=8), here, None)
    assert by_a_consumer is not None
    assert by_a_consumer.timestamp_ms == 90


def test_who_commits_what() -> None:
    """One's own entries, and those of strangers that came in at one's level."""
    assert is_to_commit(PositionEntry(timestamp_ms=1, flags=0b110, distributor="l"), "l", 2)
    assert not is_to_commit(PositionEntry(timestamp_ms=1, flags=0b110, distributor="m"), "l", 2)
    assert is_to_commit(PositionEntry(timestamp_ms=1, flags=0b110), "l", 2)
    assert not is_to_commit(PositionEntry(timestamp_ms=1, flags=0b100), "l", 2)


def test_distributors_do_not_write_over_each_other_for_ever() -> None:
    """Of two the later time stays; the earlier one is none until it is later."""
    early = PositionEntry(timestamp_ms=5, distributor="a")
    late = PositionEntry(timestamp_ms=6, distributor="b")
    assert is_news(late, early)
    assert not is_news(early, late)
    assert not is_news(PositionEntry(timestamp_ms=6, distributor="a"), late)


def test_of_two_with_the_same_time_the_one_that_goes_further_stays() -> None:
    """Else a cluster to which only that one would be passed on is left behind."""
    near, far, free = (
        PositionEntry(timestamp_ms=6, flags=flags, distributor=name) for flags, name in ((1, "a"), (4, "b"), (0, ""))
    )
    assert [is_news(far, near), is_news(near, far)] == [True, False]
    assert [is_news(free, far), is_news(far, free)] == [True, False]


def test_what_was_passed_on_does_not_go_back_either() -> None:
    """A consumer that reads on after an entry came from above may stand at a record that is older."""
    above = PositionEntry(timestamp_ms=100, flags=0b100, distributor="up")
    there = sent_entry("l", 2, SeenCommit(timestamp_ms=90, offset=3, flags=0b100), above, None)
    assert there is not None
    on = sent_entry("l", 2, SeenCommit(timestamp_ms=70, offset=5), None, there)
    assert on is not None
    assert (on.timestamp_ms, on.offset) == (100, 5)


@dataclass
class Cluster:
    """The times of the messages of its log in their order, who they are, and where the group stands."""

    log: list[tuple[int, int]] = field(default_factory=list)
    position: int | None = None
    flags: int = 0
    entry: PositionEntry | None = None


@dataclass
class World:
    """Clusters to which every message comes within the margin, and one consumer that moves about."""

    tree: Tree
    chance: random.Random
    clusters: dict[str, Cluster]
    active: str
    now: int = 1_000
    count: int = 0
    read: set[int] = field(default_factory=set)
    coming: list[tuple[int, str, tuple[int, int]]] = field(default_factory=list)
    written: dict[str, Written] = field(default_factory=dict)
    sent: int = 0

    def produce(self, cluster: str) -> None:
        message = (self.now, self.count)
        self.count += 1
        self.clusters[cluster].log.append(message)
        for other in sorted(self.clusters.keys() - {cluster}):
            self.coming.append((self.now + self.chance.randrange(MARGIN), other, message))

    def pass_time(self, seconds: int) -> None:
        for _ in range(seconds):
            self.now += 1
            due = [each for each in self.coming if each[0] <= self.now]
            self.coming = [each for each in self.coming if each[0] > self.now]
            self.chance.shuffle(due)
            for _, cluster, message in due:
                self.clusters[cluster].log.append(message)

    def consume(self, limit: int) -> None:
        here = self.clusters[self.active]
        begin = here.position or 0
        found = here.log[begin : begin + limit]
        self.read |= {number for _, number in found}
        here.position, here.flags = begin + len(found), 0

    def distribute(self, each: Distributor) -> None:
        source, target = self.clusters[each.cluster], self.clusters[each.target]
        seen = None
        if source.position is not None:
            log = source.log
            stamp = log[min(source.position, len(log) - 1)][0] if log else 0
            seen = SeenCommit(timestamp_ms=max(stamp - MARGIN, 0), offset=source.position, flags=source.flags)
        entry = sent_entry(each.name, each.level, seen, source.entry, target.entry)
        if entry is not None and is_news(entry, target.entry):
            target.entry = entry
            self.sent += 1
        if target.entry is not None and is_to_commit(target.entry, each.name, each.level):
            self.commit(each, target, target.entry)

    def commit(self, each: Distributor, target: Cluster, entry: PositionEntry) -> None:
        wanted = next((at for at, (stamp, _) in enumerate(target.log) if stamp >= entry.timestamp_ms), None)
        decision = decide(
            Situation(
                source=Committed(entry.timestamp_ms),
                translated=len(target.log) if wanted is None else wanted,
                committed=None if target.position is None else Committed(target.position),
                log_start=0,
                high_watermark=len(target.log),
                is_vacant=each.target != self.active,
                written=self.written.get(each.name),
                is_reached=wanted is not None,
            )
        )
        if decision.offset is not None:
            assert target.position is None or decision.offset >= target.position, "nobody has gone back"
            target.position, target.flags = decision.offset, entry.flags
            self.written[each.name] = Written(entry.timestamp_ms, decision.offset)


@settings(max_examples=300)
@given(seed=st.integers(0, 2**32), count=st.integers(2, 8))
@example(seed=1_000_585, count=5)
def test_consumers_that_move_about_miss_nothing(seed: int, count: int) -> None:
    """Whatever the tree, whoever is late, and wherever they go on; nothing goes round, and all clusters follow."""
    chance = random.Random(seed)
    tree = Tree(name="t", root=node_of(shaped(chance, [f"c{number}" for number in range(count)])))
    world = World(tree, chance, {name: Cluster() for name in tree.clusters}, active=tree.clusters[0])
    for _ in range(chance.randint(20, 150)):
        what = chance.random()
        if what < 0.3:
            world.produce(chance.choice(tree.clusters))
        elif what < 0.4:
            world.pass_time(chance.choice((1, 5, 30, 90)))
        elif what < 0.6:
            world.consume(chance.randint(1, 5))
        elif what < 0.67:
            world.active = chance.choice(tree.clusters)
        elif what < 0.7:
            world.written.pop(chance.choice(tree.distributors).name, None)
        else:
            world.distribute(chance.choice(tree.distributors))
    world.pass_time(MARGIN)
    world.consume(world.count)
    assert world.read == set(range(world.count)), "a message was skipped"
    for _ in range(count + 2):
        sent = world.sent
        for each in tree.distributors:
            world.distribute(each)
    assert world.sent == sent, "something goes round"
    here = world.clusters[world.active]
    behind = here.log[-1][0] - MARGIN if here.log else 0
    for cluster in world.clusters.values():
        assert cluster.position is not None
        first = next((at for at, (stamp, _) in enumerate(cluster.log) if stamp >= behind), len(cluster.log))
        assert cluster.position >= first, "a cluster has not followed"
