"""The log of commits and what it amounts to: held against the rule said in one sentence."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isthmus.kafka.batches.batch import CONTROL, scan
from isthmus.kafka.commits.table import NO_PRODUCER, CommitTable
from isthmus.model.kafka.group import NO_OFFSET, Committed
from isthmus.model.naming import SourceTopic
from testing.records.stored import PLAIN, stored
from testing.values.commits import key, value

TOPIC = SourceTopic("t")
GROUPS = ("a", "b")


class Event(NamedTuple):
    """A commit (transactional if it has a producer), a tombstone, or the end of a producer's transaction."""

    kind: str
    group: str = "a"
    partition: int = 0
    producer: int = -1


groups, partitions = st.sampled_from(GROUPS), st.integers(0, 1)
events = st.lists(
    st.one_of(
        st.builds(Event, st.just("commit"), groups, partitions, st.sampled_from((-1, -1, 7, 8))),
        st.builds(Event, st.just("tombstone"), groups, partitions, st.just(-1)),
        st.builds(Event, st.sampled_from(("committed", "aborted")), groups, partitions, st.sampled_from((7, 8))),
    ),
    max_size=40,
)


def record_set(place: int, event: Event) -> bytes:
    """The event as a stored batch; the position committed is the place, so that each is told apart."""
    if event.kind in ("committed", "aborted"):
        marker = PLAIN._replace(key=b"\x00\x00\x00" + bytes([event.kind == "committed"]), value=b"\x00" * 6)
        return stored(place, [marker], producer_id=event.producer, transactional=True, attributes=CONTROL)
    about = key(1, event.group, "t", event.partition)
    said = None if event.kind == "tombstone" else value(3, Committed(place, 2, "m"), 0)
    record = PLAIN._replace(key=about, value=said)
    return stored(place, [record], producer_id=event.producer, transactional=event.producer >= 0)


def expected(log: Iterable[Event], group: str, partition: int) -> int | None:
    """The newest commit that counts: plain, or in a transaction that was committed; with no tombstone behind it."""
    history = list(log)
    newest = None
    for place, event in enumerate(history):
        if event.kind != "commit" or (event.group, event.partition) != (group, partition):
            continue
        behind = history[place + 1 :]
        ends = [e.kind for e in behind if e.kind in ("committed", "aborted") and e.producer == event.producer]
        counts = event.producer < 0 or ends[:1] == ["committed"]
        if counts and not any(e.kind == "tombstone" and e[1:3] == event[1:3] for e in behind):
            newest = place
    return newest


@given(events)
def test_the_newest_commit_that_counts(log: list[Event]) -> None:
    """After every record the table holds, of each key, the newest commit that counts by then, and who made it."""
    table = CommitTable(lambda group: True)
    for place, event in enumerate(log):
        before = {group: table.get(group, {}) for group in GROUPS}
        (batch,) = scan(record_set(place, event))
        changed = table.take(0, batch)
        for group in GROUPS:
            offsets = {
                ("t", partition): at
                for partition in (0, 1)
                if (at := expected(log[: place + 1], group, partition)) is not None
            }
            found = table.get(group, {})
            assert {key: committed.offset for key, committed in found.items()} == offsets
            assert table.writers(group) == {key: log[place].producer for key, place in offsets.items()}
            assert group in changed or found == before[group]


def test_transactions_end_in_their_own_partition() -> None:
    """A marker in one partition of the log says nothing about another."""
    table = CommitTable(lambda group: True)
    commit = Event("commit", producer=7)
    for partition, place, event in (
        (0, 0, commit),
        (1, 5, commit._replace(group="b")),
        (0, 1, Event("committed", producer=7)),
    ):
        (batch,) = scan(record_set(place, event))
        table.take(partition, batch)
    assert {group: len(found) for group, found in table.items()} == {"a": 1}


def test_transactions_tell_who_committed() -> None:
    """Of each producer the newest commit that was made in a transaction, also where it was replaced since; what was
    replaced before the beginning is history, and a tombstone ends all.
    """
    table = CommitTable(lambda group: True)

    def told(*events: Event) -> set[tuple[int, int]]:
        for event in events:
            (batch,) = scan(record_set(len(log), event))
            log.append(event)
            table.take(0, batch)
        found = table.find_transacted("a").get((TOPIC, 0), ())
        assert all(one.place == one.committed.offset for one in found)
        return {(one.producer_id, one.place) for one in found}

    log: list[Event] = []
    commit, end = Event("commit"), Event("committed")
    assert told(commit, commit._replace(producer=7)) == set()
    assert told(end._replace(producer=7)) == {(7, 1)}
    assert told(commit._replace(producer=8), Event("aborted", producer=8), commit) == {(7, 1)}
    table.begin()
    assert told() == set()
    assert told(commit._replace(producer=7), end._replace(producer=7)) == {(7, 6)}
    table.begin()
    assert told(commit, commit._replace(producer=8), end._replace(producer=8)) == {(7, 6), (8, 9)}
    assert told(Event("tombstone")) == set()


def test_groups_nobody_wants_are_left_out() -> None:
    """Only wanted groups take memory."""
    table = CommitTable(lambda group: group == "b")
    (batch,) = scan(record_set(0, Event("commit")))
    assert table.take(0, batch) == set()
    assert list(table) == []


def taken(table: CommitTable, place: int, event: Event) -> set[str]:
    """What an event at this place of the log changes."""
    (batch,) = scan(record_set(place, event))
    return table.take(0, batch)


def test_a_position_without_an_offset_is_none() -> None:
    """Coordinators tell -1 where a group has committed nothing: the group is there, the position is not."""
    table = CommitTable(lambda group: True)
    table.seed("a", {(TOPIC, 0): Committed(NO_OFFSET), (TOPIC, 1): Committed(0)})
    assert dict(table) == {"a": {(TOPIC, 1): Committed(0)}}
    assert len(table) == 1


def test_a_seed_is_older_than_the_log() -> None:
    """What the log says from then on counts, wherever it stands; a later seed replaces all that was known."""
    table = CommitTable(lambda group: True)
    table.seed("a", {(TOPIC, 0): Committed(77), (TOPIC, 1): Committed(78)})
    assert taken(table, 0, Event("commit")) == {"a"}
    assert {key: found.offset for key, found in table["a"].items()} == {(TOPIC, 0): 0, (TOPIC, 1): 78}
    table.seed("a", {(TOPIC, 2): Committed(5)})
    assert table["a"] == {(TOPIC, 2): Committed(5)}


def test_what_changes_is_told() -> None:
    """Groups by whose commits or tombstones something may be another; not what is still open, aborted, or of no key."""
    table = CommitTable(lambda group: True)
    assert taken(table, 0, Event("commit")) == {"a"}
    assert taken(table, 1, Event("commit", group="b", producer=7)) == set()
    assert taken(table, 2, Event("commit", producer=8)) == set()
    assert taken(table, 3, Event("aborted", producer=8)) == set()
    assert taken(table, 4, Event("committed", producer=7)) == {"b"}
    assert taken(table, 5, Event("committed", producer=7)) == set()
    assert taken(table, 6, Event("tombstone")) == {"a"}
    assert set(table) == {"b"}
    (batch,) = scan(stored(7, [PLAIN._replace(key=None)]))
    assert table.take(0, batch) == set()


def test_one_batch_may_hold_many_commits() -> None:
    """All of them count, also behind such that are of no interest."""
    table = CommitTable(lambda group: group == "b")
    records = [
        PLAIN._replace(key=None),
        PLAIN._replace(key=key(1, "a", "t", 0), value=value(3, Committed(1), 0)),
        PLAIN._replace(key=b"\x00\x02rest", value=b""),
        PLAIN._replace(key=key(1, "b", "t", 0), value=value(3, Committed(2, 4, "m"), 0)),
        PLAIN._replace(key=key(1, "b", "u", 1), value=value(3, Committed(3), 0)),
    ]
    (batch,) = scan(stored(0, records))
    assert table.take(0, batch) == {"b"}
    assert dict(table) == {"b": {(TOPIC, 0): Committed(2, 4, "m"), ("u", 1): Committed(3)}}
    (open_batch,) = scan(stored(9, [*records[1:], *records], producer_id=7, transactional=True))
    assert table.take(0, open_batch) == set()
    assert taken(table, 30, Event("committed", producer=7)) == {"b"}
    assert {key: [one.place for one in found] for key, found in table.find_transacted("b").items()} == {
        (TOPIC, 0): [16],
        ("u", 1): [17],
    }


def test_a_tombstone_ends_open_commits_in_its_partition() -> None:
    """Of its own key alone: what was committed there in another transaction, or in another partition, goes on."""
    table = CommitTable(lambda group: True)
    taken(table, 0, Event("commit", producer=7))
    taken(table, 1, Event("commit", partition=1, producer=7))
    (elsewhere,) = scan(record_set(0, Event("commit", group="b", producer=7)))
    table.take(1, elsewhere)
    assert taken(table, 2, Event("tombstone")) == {"a"}
    assert taken(table, 3, Event("committed", producer=7)) == {"a"}
    assert set(table["a"]) == {(TOPIC, 1)}
    (end,) = scan(record_set(1, Event("committed", producer=7)))
    assert table.take(1, end) == {"b"}


def test_only_the_last_producers_are_remembered() -> None:
    """As many as a position needs, the oldest is left out; one that commits again is the newest."""
    table = CommitTable(lambda group: True)
    place = 0
    for producer in (*range(1, 9), 1, 9):
        taken(table, place, Event("commit", producer=producer))
        taken(table, place + 1, Event("committed", producer=producer))
        place += 2
    found = table.find_transacted("a")[(TOPIC, 0)]
    assert [one.producer_id for one in found] == [3, 4, 5, 6, 7, 8, 1, 9]
    assert found[-1].place == place - 2
    assert table.find_transacted("b") == {}


def test_nothing_is_told_of_a_group_that_is_gone() -> None:
    """Its last tombstone takes what was committed in transactions as well."""
    table = CommitTable(lambda group: True)
    for place, partition in ((0, 0), (2, 1)):
        taken(table, place, Event("commit", partition=partition, producer=7))
        taken(table, place + 1, Event("committed", producer=7))
    taken(table, 4, Event("tombstone"))
    assert set(table.find_transacted("a")) == {(TOPIC, 1)}
    taken(table, 5, Event("tombstone", partition=1))
    assert (table.find_transacted("a"), list(table)) == ({}, [])
    table.begin()


def test_what_cannot_be_decoded_is_an_error() -> None:
    """It names where it stands."""
    data = bytearray(stored(40, [PLAIN] * 9, codec=4))
    data[70] ^= 0xFF
    (batch,) = scan(data)
    with pytest.raises(ValueError, match="offset 40"):
        CommitTable(lambda group: True).take(0, batch)


def test_of_what_only_the_coordinator_told_nobody_is_the_writer() -> None:
    """Until the log tells of the position as well."""
    table = CommitTable(lambda group: True)
    table.seed("a", {(TOPIC, 0): Committed(3), (TOPIC, 1): Committed(4)})
    assert table.writers("a") == {}
    taken(table, 0, Event("commit"))
    assert table.writers("a") == {(TOPIC, 0): NO_PRODUCER}
