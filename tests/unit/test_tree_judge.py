"""The judge of a tree finds what is missing, doubled, unknown, changed or out of order, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from soak.judge.evidence import Log, Seen
from soak.trees.judge import judged_tree

KEY = ("soak.plain", 0)
TRANSACTIONS = ("soak.transactions", 0)


def sent(writer: str, topic: str, *acked: Sequence[int], failed: Sequence[int] = ()) -> dict[str, Any]:
    """`acked`: partition, first number, first offset and count; `failed`: numbers."""
    told = [[0, number, "timed out"] for number in failed]
    return {"kind": "sent", "at": 1.0, "writer": writer, "topic": topic, "acked": list(acked), "failed": told}


def log(*ids: str, broken: str = "", hidden: str = "") -> Log:
    """A log of these records in this order; `hidden` is seen by nobody who reads what is committed."""
    records = tuple(
        Seen(offset=offset, id=each, content=b"", key=None, is_null=False, is_sound=each != broken)
        for offset, each in enumerate(ids)
    )
    visible = frozenset(each.offset for each in records if each.id != hidden)
    return Log(start=0, stable=len(ids), high=len(ids), records=records, visible=visible)


A, B = ("a-plain.0.0", "a-plain.0.1"), ("b-plain.0.0", "b-plain.0.1")
EVENTS = [sent("a-plain", KEY[0], [0, 0, 0, 2]), sent("b-plain", KEY[0], [0, 0, 0, 2])]


def found(logs: Mapping[str, Log], events: Sequence[dict[str, Any]] = EVENTS, key: tuple[str, int] = KEY) -> list[str]:
    """The short names of what is violated, with where."""
    violations = judged_tree(events, {leaf: {key: each} for leaf, each in logs.items()})
    return [f"{each.invariant.split()[0]} {each.where.split(':')[0]}" for each in violations]


def test_all_that_was_written_is_everywhere() -> None:
    """Each cluster has the messages of both in an order of its own, and each producer's in the producer's."""
    assert found({"a": log(*A, *B), "b": log(B[0], *A, B[1])}) == []


@pytest.mark.parametrize(
    ("logs", "violations"),
    [
        ({"a": log(*A, *B), "b": log(*B, A[0])}, ["T1 b"]),
        ({"a": log(*A, *B), "b": log(*B, *A, A[1])}, ["T2 b"]),
        ({"a": log(*A, *B), "b": log(*B, *A, hidden=A[0])}, ["T1 b"]),
        ({"a": log(*A, *B, "c-plain.0.0"), "b": log(*B, *A, "c-plain.0.0")}, ["T3 a", "T3 b"]),
        ({"a": log(*A, *B), "b": log(*B, *A, broken=A[1])}, ["T4 b"]),
        ({"a": log(*A, *B), "b": log(*B, A[1], A[0])}, ["T5 b"]),
    ],
    ids=["missing", "doubled", "hidden", "unknown", "changed", "disordered"],
)
def test_what_does_not_hold_is_found(logs: Mapping[str, Log], violations: list[str]) -> None:
    """Each kind of fault is found where it is, and called by its name."""
    assert found(logs) == violations


def test_what_nobody_answered_is_on_all_clusters_or_on_none() -> None:
    """A message that was not acknowledged may be there; then it is everywhere."""
    events = [sent("a-plain", KEY[0], [0, 0, 0, 1], failed=[1])]
    assert found({"a": log(A[0]), "b": log(A[0])}, events) == []
    assert found({"a": log(*A), "b": log(*A)}, events) == []
    assert found({"a": log(*A), "b": log(A[0])}, events) == ["T1 b"]


@pytest.mark.parametrize(("ended", "violations"), [("committed", ["T1 a", "T1 b"]), ("aborted", []), ("left open", [])])
def test_what_was_committed_has_to_be_there(ended: str, violations: list[str]) -> None:
    """Of transactions only those count that were committed."""
    writer, topic = "a-transactions", TRANSACTIONS[0]
    ends = {"kind": "txn", "at": 2.0, "writer": writer, "topic": topic, "ended": ended, "spans": [[0, 0, 1]]}
    events = [sent(writer, topic, [0, 0, 0, 2]), ends]
    assert found({"a": log(), "b": log()}, events, TRANSACTIONS) == violations


def test_distributors_have_to_recover_and_to_say_so() -> None:
    """Whoever does not catch up once all is whole, or shows another state than ACTIVE when all is quiet, is named."""
    links = [
        {"link": "tree.a.1", "state": "ACTIVE", "problem": ""},
        {"link": "tree.a.2", "state": "WAITING", "problem": "b does not answer"},
    ]
    events = [*EVENTS, {"kind": "recovery", "at": 3.0, "problem": "late"}, {"kind": "shown", "at": 4.0, "links": links}]
    assert found({"a": log(*A, *B), "b": log(*A, *B)}, events) == ["T6 clusters", "T7 tree.a.2"]
