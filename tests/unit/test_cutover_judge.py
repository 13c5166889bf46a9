"""The judge of the soak finds what a promotion or a failover said of its records that was not so."""

from __future__ import annotations

from typing import Any

import pytest

from soak.history import Event
from soak.judge.cutover import i23_cutover
from soak.judge.evidence import Log, Seen

KEY = ("cut.orders", 0)


def log(*parts: tuple[str, int, int]) -> Log:
    """Records of writers: each from one number up to another, in this order."""
    ids = [f"{writer}.0.{number}" for writer, begin, end in parts for number in range(begin, end)]
    records = tuple(
        Seen(offset=at, id=each, content=each.encode(), key=b"", is_null=False, is_sound=True)
        for at, each in enumerate(ids)
    )
    return Log(start=0, stable=len(ids), high=len(ids), records=records, visible=frozenset(range(len(ids))))


def cutover(verb: str, **claim: Any) -> Event:
    """What the command told of the only partition."""
    row = {"topic": KEY[0], "partition": 0, "target_end": 20, "source_end": 20, "missing_records": 0}
    told = {"code": 0, "said": "", "partitions": [{**row, "source_end_age_seconds": 0.0, **claim}]}
    return {"kind": "cutover", "at": 30.0, "begun": 20.0, "verb": verb, **told}


def judged(event: Event, source: Log, target: Log, *others: Event) -> list[str]:
    return [each.invariant.split()[0] for each in i23_cutover((*others, event), {KEY: source}, {KEY: target})]


SOURCE = log(("before", 0, 20), ("late", 0, 5))
TARGET = log(("before", 0, 20), ("afterwards", 0, 5))


def test_a_promotion_that_leaves_nothing_behind_holds() -> None:
    """All that was there before is there, what came later is not, and one can write."""
    assert judged(cutover("promote"), SOURCE, TARGET) == []


@pytest.mark.parametrize(
    ("event", "source", "target"),
    [
        (cutover("promote"), log(("before", 0, 21), ("late", 0, 5)), TARGET),
        (cutover("promote"), SOURCE, log(("before", 0, 20), ("late", 0, 1), ("afterwards", 0, 5))),
        (cutover("promote"), SOURCE, log(("before", 0, 20))),
        (cutover("promote", missing_records=3), SOURCE, TARGET),
        (cutover("promote", target_end=None), SOURCE, TARGET),
        ({**cutover("promote"), "code": 5}, SOURCE, TARGET),
        ({**cutover("promote"), "partitions": []}, SOURCE, TARGET),
    ],
    ids=["behind", "late", "closed", "missing", "unsaid", "refused", "nothing"],
)
def test_what_a_promotion_leaves_behind_is_found(event: Event, source: Log, target: Log) -> None:
    """A record less than the source had, one that came later, a target nobody can write to, a claim of less."""
    assert "I23" in judged(event, source, target)


def test_what_is_not_the_same_before_the_end_is_found() -> None:
    """What was copied is judged as everywhere."""
    other = log(("before", 0, 19), ("before", 25, 26), ("afterwards", 0, 5))
    assert judged(cutover("promote"), SOURCE, other) == ["I2"]


def sent(at: float, end: int) -> Event:
    return {"kind": "sent", "at": at, "writer": "before", "topic": KEY[0], "acked": [[0, 0, 0, end]], "failed": []}


def test_a_failover_tells_how_much_may_be_missing() -> None:
    """As far as the source was heard; what came since then is counted by nobody."""
    source, target = log(("before", 0, 30)), log(("before", 0, 20), ("afterwards", 0, 5))
    true = cutover("failover", source_end=26, missing_records=6, source_end_age_seconds=5.0)
    assert judged(true, source, target, sent(10.0, 26), sent(19.0, 30)) == []
    assert judged(true, source, target, sent(10.0, 28)) == ["I23"], "it had heard of fewer than there were"
    less = cutover("failover", source_end=26, missing_records=5, source_end_age_seconds=5.0)
    assert judged(less, source, target, sent(10.0, 26)) == ["I23"]
    unknown = cutover("failover", source_end=None, missing_records=None)
    assert judged(unknown, source, target, sent(10.0, 28)) == []
