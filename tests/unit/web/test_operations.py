"""Operations: how they end, and how many there may be."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from isthmus.errors import GateNotMet, RequestRefused, TokenRefused
from isthmus.model.text.plain import plain
from isthmus.web.access.guard import ANYBODY, Caller
from isthmus.web.access.tokens import Role
from isthmus.web.operations import MOST, LongOperation, OnStep, OperationKind, Operations, OperationState
from testing.patience import TERM_S


@pytest.fixture
def operations() -> Iterator[Operations]:
    """A place for operations, which are stopped in the end."""
    made = Operations()
    yield made
    made.close()


async def waiting(on_step: OnStep) -> None:
    """Work that ends only if it is stopped."""
    on_step("waiting")
    await asyncio.Event().wait()


def begin(operations: Operations, work: Any = waiting, subject: str | None = None) -> LongOperation:
    """One that was begun."""
    return operations.begin("promote", "east-west", ANYBODY, {}, work, subject=subject)


def ended(operation: LongOperation) -> OperationState:
    """The state that an operation comes to."""
    for thread in threading.enumerate():
        if thread.name.startswith("operation"):
            thread.join(TERM_S)
    return operation.state


def test_work_has_a_result(operations: Operations) -> None:
    """With the steps on the way."""

    async def work(on_step: OnStep) -> dict[str, int]:
        on_step("counting")
        return {"records": 7}

    operation = begin(operations, work)

    assert ended(operation) is OperationState.SUCCEEDED
    told: dict[str, Any] = {**plain(operations.get(operation.id))}
    assert (told["result"], told["problem"], [each["step"] for each in told["progress"]]) == (
        {"records": 7},
        None,
        ["counting"],
    )


def test_what_an_operation_is_about_is_in_the_log_whether_a_link_or_not(
    operations: Operations, caplog: pytest.LogCaptureFixture
) -> None:
    """A link can be asked for by its name; what else it may be is named where one reads who did what."""
    caplog.set_level(logging.INFO, "isthmus.audit")

    async def work(_: OnStep) -> None:
        return None

    told = begin(operations, work), operations.begin("reassign", "east", ANYBODY, {}, work, is_of_link=False)
    assert [ended(each) for each in told] == [OperationState.SUCCEEDED] * 2
    assert [(plain(each)["target"], each.event().link) for each in told] == [
        ("east-west", "east-west"),
        ("east", None),
    ]
    lines = [json.loads(record.getMessage()) for record in caplog.records]
    assert {(line["what"], line["target"]) for line in lines} == {("promote", "east-west"), ("reassign", "east")}


def test_work_that_fails_has_a_problem(operations: Operations) -> None:
    """With its code; of a bug nothing is told but that it is one."""

    async def late(_: OnStep) -> None:
        raise GateNotMet("it lags", hint="Wait.")

    async def broken(_: OnStep) -> None:
        raise ValueError("canary-secret")

    told = begin(operations, late), begin(operations, broken)
    assert [ended(each) for each in told] == [OperationState.FAILED] * 2
    problems = [plain(each)["problem"] for each in told]
    assert [each and each["code"] for each in problems] == ["ISTH-GATE", "ISTH-INVARIANT"]
    assert "canary" not in str(problems)


def test_operations_of_one_kind_take_no_place_of_another(operations: Operations) -> None:
    """As many as may wait and verify do, and a failover is begun all the same."""

    def look(kind: OperationKind) -> LongOperation:
        return operations.begin("wait", "east-west", ANYBODY, {}, waiting, kind=kind)

    begun = []
    for kind in (OperationKind.WAITS, OperationKind.COMPARES):
        begun += [look(kind) for _ in range(MOST[kind])]
        with pytest.raises(RequestRefused, match=f"{MOST[kind]} operations that {kind} are at work"):
            look(kind)
    begun.append(begin(operations))
    operations.close()
    assert {ended(each) for each in begun} == {OperationState.CANCELLED}


def test_so_many_are_at_work_at_once(operations: Operations) -> None:
    """One more is refused with when to ask again; one on the same subject at any time."""
    begun = [begin(operations, subject="a link"), *(begin(operations) for _ in range(MOST[OperationKind.CHANGES] - 1))]

    with pytest.raises(RequestRefused, match="promote of east-west is at work"):
        begin(operations, subject="a link")
    with pytest.raises(RequestRefused, match="operations that change something are at work") as refused:
        begin(operations)
    assert (refused.value.status, refused.value.retry_after_s) == (429, 5)
    operations.close()
    assert [ended(each) for each in begun] == [OperationState.CANCELLED] * MOST[OperationKind.CHANGES]


def test_the_oldest_are_forgotten(operations: Operations) -> None:
    """The last 200 are kept, and all that are at work."""

    async def nothing(_: OnStep) -> None:
        return None

    first = begin(operations)
    for _ in range(201):
        ended_soon = begin(operations, nothing)
        while ended_soon.state is OperationState.RUNNING:
            threading.Event().wait(0.001)
    kept = operations.all()

    assert len(kept) == 200
    assert first in kept


def test_who_may_do_less_does_not_stop_it(operations: Operations) -> None:
    """An admin's operation is stopped by admins."""
    operation = begin(operations)

    with pytest.raises(TokenRefused):
        operations.cancel(operation.id, Caller("bob", Role.OPERATOR))
    operations.cancel(operation.id, ANYBODY)
    assert ended(operation) is OperationState.CANCELLED


def test_what_has_ended_is_in_the_way_of_nothing(operations: Operations) -> None:
    """Whoever sees the end may begin the next at once, though the thread of the first has yet to leave."""
    first = begin(operations, subject="east-west")
    with pytest.raises(RequestRefused, match="is at work"):
        begin(operations, subject="east-west")
    first.state = OperationState.SUCCEEDED
    assert begin(operations, subject="east-west").state is OperationState.RUNNING
