"""The log of commits and what it amounts to: held against the rule said in one sentence."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from isthmus.cluster.commits.table import CommitTable
from isthmus.model.group import Committed
from isthmus.wire.batch import CONTROL, scan
from tests.unit.cluster.commits.test_records import key, value
from tests.unit.wire.stored import PLAIN, stored

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
    """After every record the table holds, of each key, the newest commit that counts by then."""
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
        found = table.transacted("a").get(("t", 0), ())
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
