"""Records through a Python function over Arrow batches."""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from collections.abc import Sequence

import pytest

from isthmus.engine.batches.rebatch import Record
from isthmus.engine.mapped.transformer import Changed, Failure, Portion, TransformFailed
from isthmus.model.lane import Lane
from isthmus.model.links.transform import RecordFunction, Transform
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.spark.transforms.calls import Calls
from isthmus.spark.transforms.python import build_functions
from testing.patience import TERM_S

LANE = Lane(
    source_topic=SourceTopic("orders"),
    source_topic_id=uuid.UUID(int=1),
    target_topic=TargetTopic("copies"),
    target_topic_id=uuid.UUID(int=2),
    partition=3,
    is_mapped=True,
    transform="t",
)
HERE = "tests.unit.spark.transforms.functions"


def change(function: str, *records: Record) -> Sequence[Changed]:
    async def scenario() -> Sequence[Changed]:
        transform = Transform(python=RecordFunction(HERE, function))
        (transformer,) = build_functions([transform, Transform(where="true")], Calls()).values()
        return await transformer.change(Portion(LANE, list(records), [False] * len(records)))

    return asyncio.run(scenario())


def valued(*values: bytes) -> list[Record]:
    return [Record(10 + 2 * n, 1000 + n, None, value, []) for n, value in enumerate(values)]


def test_a_record_comes_through_as_it_is() -> None:
    """No key, an empty one, no value, no timestamp, headers twice, without a value, with names beyond ASCII."""
    records = [
        Record(5, 1_700_000_000_123, b"k", b"v", [("a", b"1"), ("a", None), ("ü", b"")]),
        Record(9, -1, None, None, []),
        Record(11, 0, b"", b"", []),
    ]
    assert change("as_they_are", *records) == records


def test_rows_are_left_out_and_changed() -> None:
    """What the function returns takes the place of what it was given."""
    a, b, c = valued(b"a", b"-b", b"c")
    assert change("upper", a, b, c) == [a._replace(value=b"A"), None, c._replace(value=b"C")]


def test_a_record_that_fails_fails_alone() -> None:
    """Its neighbours are changed, and the failure has the record as it came."""
    records = valued(b"a", b"b", b"bad", b"c", b"-d", b"bad", b"e")
    found = change("upper", *records)
    assert [one.value if isinstance(one, Record) else one for one in found] == [
        b"A",
        b"B",
        Failure(records[2], "RuntimeError: a bad value"),
        b"C",
        None,
        Failure(records[5], "RuntimeError: a bad value"),
        b"E",
    ]


@pytest.mark.parametrize("function", ["doubled", "without_a_column", "moved", "nothing"])
def test_what_is_no_answer_is_a_failure(function: str) -> None:
    """More rows, other columns, another partition, or no rows at all."""
    found = change(function, *valued(b"a", b"b"))
    assert [isinstance(one, Failure) for one in found] == [True, True]


def test_another_order_is_no_answer() -> None:
    """Single records have no order, so each is changed by itself then."""
    records = valued(b"a", b"b", b"c")
    assert change("reversed_rows", *records) == records


def test_a_name_that_is_not_utf8_fails_the_record() -> None:
    """Arrow has no place for it, and it must not become another name."""
    records = [Record(1, 1, None, b"a", [("\udcff", b"1")]), Record(2, 1, None, b"b", [])]
    bad, good = change("as_they_are", *records)
    assert isinstance(bad, Failure)
    assert "UTF-8" in bad.reason
    assert good == records[1]


@pytest.mark.parametrize("function", ["missing", "NO_FUNCTION", "", "as_they_are.deeper"])
def test_a_function_that_is_not_there_is_no_fault_of_a_record(function: str) -> None:
    """No policy for records may leave anything out for it."""
    with pytest.raises(TransformFailed):
        change(function, *valued(b"a"))


def test_a_function_whose_service_is_away_is_no_fault_of_a_record() -> None:
    """The lane waits for it and leaves nothing out meanwhile, and nobody is told to correct the transform."""
    with pytest.raises(TransformFailed, match="the service is away") as raised:
        change("away", *valued(b"a", b"b"))
    assert "bring that back" in raised.value.hint


def test_calls_that_last_give_their_turn_to_others() -> None:
    """However many hang, and the event loop goes on."""
    release = threading.Event()

    async def scenario() -> None:
        calls = Calls(at_once=1, patience_s=0.01)
        hanging = [asyncio.create_task(calls.run(release.wait)) for _ in range(5)]
        begun = time.monotonic()
        assert await calls.run(lambda: 7) == 7
        with pytest.raises(ValueError, match="nonsense"):
            await calls.run(lambda: int("nonsense"))
        assert time.monotonic() - begun < TERM_S
        release.set()
        assert await asyncio.gather(*hanging) == [True] * 5

    asyncio.run(scenario())


def test_a_call_that_hangs_does_not_keep_the_loop_from_ending() -> None:
    """Its answer comes when nobody wants it."""
    release = threading.Event()

    async def scenario() -> None:
        waiting = asyncio.create_task(Calls(patience_s=0.01).run(release.wait))
        await asyncio.sleep(0.05)
        waiting.cancel()
        await asyncio.wait([waiting])

    asyncio.run(scenario())
    release.set()
