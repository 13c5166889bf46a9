"""The judge of the soak finds records that only a target had and that are nowhere any more."""

from __future__ import annotations

from typing import Any

from soak.history import Event
from soak.judge.evidence import Log, Seen
from soak.judge.healing import i24_nothing_nowhere

KEY = ("let-go-1.orders", 0)


def log(*ids: str) -> dict[tuple[str, int], Log]:
    """The only partition, with these records."""
    records = tuple(
        Seen(offset=at, id=each, content=each.encode(), key=b"", is_null=False, is_sound=True)
        for at, each in enumerate(ids)
    )
    return {KEY: Log(start=0, stable=len(ids), high=len(ids), records=records, visible=frozenset(range(len(ids))))}


HELD: Event = {"kind": "held", "at": 1.0, "topic": KEY[0], "partition": 0, "ids": ["a.0.0", "a.0.1", "a.0.2"]}


def judged(*logs: dict[tuple[str, int], Log], others: Any = ()) -> list[str]:
    return [each.message for each in i24_nothing_nowhere((HELD, *others), *logs)]


def test_what_is_somewhere_is_not_lost() -> None:
    """A record at the source, at the target or in quarantine is somewhere."""
    assert judged(log("a.0.0"), log("a.0.1"), log("a.0.2")) == []
    assert judged(log("a.0.0"), log("a.0.1"), {}) == ["1 of 3 records that the target held are nowhere"]


def test_what_applications_wrote_has_to_be_in_the_topic() -> None:
    """What was written to a topic after its failover is in this topic: a quarantine is no place for it."""
    written = {"kind": "stranger", "at": 5.0, "topic": KEY[0], "writer": "w", "acked": [[0, 0, 3, 2]], "failed": []}
    source = log("a.0.0", "a.0.1", "a.0.2")
    assert judged(source, log("w.0.0", "w.0.1"), {}, others=[written]) == []
    assert judged(source, log("w.0.0"), log("w.0.1"), others=[written]) == [
        "1 records that applications wrote after the failover are not in the topic"
    ]
