"""Long operations, which are answered before they are done: begun, observed while they run, and stopped."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from http import HTTPStatus
from typing import Annotated, Any, ClassVar, Final

from isthmus.deadline import Deadline
from isthmus.errors import IsthmusError, RequestRefused, TokenRefused
from isthmus.fabric.answers import (
    GroupDrill,
    Met,
    Reassignment,
    ReplayedPartition,
    SchemasPlan,
    now_ms,
)
from isthmus.model.links.promotion import Promotion
from isthmus.model.links.recovery import Recovery
from isthmus.model.links.verdict import Verification
from isthmus.model.text.instant import written_instant
from isthmus.model.text.plain import Flat, Hidden, PlainValue, plain
from isthmus.model.trees.treeverdict import TreeVerdict
from isthmus.web.access.auditing import log_change, record
from isthmus.web.access.guard import Caller
from isthmus.web.access.tokens import Role
from isthmus.web.problems import ProblemDetails, problem_body, unforeseen

_KEPT_MAX: Final = 200
_STEPS_MAX: Final = 200
_END_S: Final = 20.0
OnStep = Callable[[str], None]
Work = Callable[[OnStep], Coroutine[Any, Any, Any]]


class OperationKind(StrEnum):
    """The kinds of operations, each with its own places: changes never wait for comparisons."""

    CHANGES = "change something"
    COMPARES = "compare"
    """Verifications and drills, each with a Spark or clients of its own."""
    WAITS = "wait"


MOST: Final = {OperationKind.CHANGES: 16, OperationKind.COMPARES: 4, OperationKind.WAITS: 16}
"""The limits of operations at work at once."""


class OperationState(StrEnum):
    """How far an operation is."""

    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The result and the times of an operation."""

    at_ms: Annotated[int, "at", written_instant]
    step: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitResult:
    """How it stood when waiting ended."""

    SCHEMA: ClassVar = "Waited"

    met: Flat[Met]
    state: str | None
    lag_records: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationEvent:
    """An operation in an event: its state and its last step."""

    operation: str
    verb: str
    target: str
    link: str | None
    by: str
    state: OperationState
    step: str | None


def _name(caller: Caller) -> str:
    return caller.name


def _list_steps(steps: Iterable[tuple[int, str]]) -> list[Step]:
    return [Step(at_ms=at_ms, step=step) for at_ms, step in [*steps]]


OperationResult = (
    Promotion
    | Recovery
    | list[ReplayedPartition]
    | GroupDrill
    | Verification
    | TreeVerdict
    | WaitResult
    | list[Reassignment]
    | list[SchemasPlan]
    | None
)


def _describe_result(result: OperationResult) -> OperationResult:
    """Name the types of results for the schema. What an operation keeps is the JSON form of one."""
    return result


@dataclass(slots=True, kw_only=True)
class LongOperation(PlainValue):
    """An operation: its progress, and its result, which differs by verb.

    `target` is its subject: the `link`, or another thing without a link.

    `subject` is the thing that no other operation of its `kind` may work on meanwhile, if there is one.
    """

    SCHEMA: ClassVar = "Operation"

    id: Annotated[str, "operation"]
    verb: str
    target: str
    link: str | None
    by: Annotated[Caller, _name]
    state: OperationState = OperationState.RUNNING
    begun_at_ms: Annotated[int, "begun_at", written_instant]
    ended_at_ms: Annotated[int | None, "ended_at", written_instant] = None
    steps: Annotated[deque[tuple[int, str]], "progress", _list_steps] = field(
        default_factory=lambda: deque(maxlen=_STEPS_MAX)
    )
    result: Annotated[Any, _describe_result] = None
    problem: ProblemDetails | None = None
    subject: Hidden[str | None]
    kind: Hidden[OperationKind]

    def is_stopped_by(self, caller: Caller) -> bool:
        """Return whether a caller may stop it: its role may change things, and is at least that of the caller that
        began it.
        """
        return caller.role.may(Role.OPERATOR) and caller.role.may(self.by.role)

    def event(self) -> OperationEvent:
        """Return the event of its progress: its state and its last step."""
        steps = [*self.steps]
        return OperationEvent(
            operation=self.id,
            verb=self.verb,
            target=self.target,
            link=self.link,
            by=self.by.name,
            state=self.state,
            step=steps[-1][1] if steps else None,
        )


OnChange = Callable[[LongOperation], None]


class _Working:
    """An operation in a thread and a loop of its own, where it can be stopped as Ctrl-C stops a command."""

    def __init__(self, operation: LongOperation, work: Work, ended: Callable[[], None]) -> None:
        self.operation = operation
        self._work = work
        self._ended = ended
        self._is_stopped = False
        self._task: asyncio.Task[Any] | None = None
        self._lock = threading.Lock()
        self.thread = threading.Thread(target=self._run, name=f"operation {operation.verb}", daemon=True)

    def stop(self) -> None:
        with self._lock:
            self._is_stopped = True
            if self._task is not None:
                self._task.get_loop().call_soon_threadsafe(self._task.cancel)

    def _run(self) -> None:
        operation = self.operation
        try:
            operation.result = plain(asyncio.run(self._run_work()))
            operation.state = OperationState.SUCCEEDED
        except asyncio.CancelledError:
            operation.state = OperationState.CANCELLED
        except IsthmusError as error:
            operation.problem, operation.state = problem_body(error), OperationState.FAILED
        except Exception as error:  # noqa: BLE001 - the caller learns that it failed, and the log has the reason
            operation.problem, operation.state = problem_body(unforeseen(error)), OperationState.FAILED
        operation.ended_at_ms = now_ms()
        self._ended()

    async def _run_work(self) -> Any:
        task = asyncio.current_task()
        with self._lock:
            if self._is_stopped:
                raise asyncio.CancelledError
            self._task = task
        try:
            return await self._work(lambda step: self.operation.steps.append((now_ms(), step)))
        finally:
            with self._lock:
                self._task = None


class Operations:
    """The operations that were begun since the server started: a limit of each kind at work at once, and the last 200
    kept.
    """

    def __init__(self, on_change: OnChange = lambda _: None) -> None:
        self._on_change = on_change
        self._lock = threading.Lock()
        self._kept: dict[str, LongOperation] = {}
        self._working: dict[str, _Working] = {}
        self._is_open = True

    def begin(
        self,
        verb: str,
        target: str,
        caller: Caller,
        details: dict[str, Any],
        work: Work,
        *,
        subject: str | None = None,
        is_of_link: bool = True,
        kind: OperationKind = OperationKind.CHANGES,
    ) -> LongOperation:
        """Begin an operation on the link `target` or on another subject. The log has the caller that began it, and how
        it ended.

        :raises RequestRefused: Too many are at work, or one on the same subject.
        """
        operation = LongOperation(
            id=uuid.uuid4().hex,
            verb=verb,
            target=target,
            link=target if is_of_link else None,
            by=caller,
            subject=subject,
            kind=kind,
            begun_at_ms=now_ms(),
        )
        logged = {**details, "operation": operation.id}

        async def audited_work(on_step: OnStep) -> Any:
            def step(text: str) -> None:
                on_step(text)
                self._on_change(operation)

            with log_change(caller, verb, target, logged):
                return await work(step)

        working = _Working(operation, audited_work, lambda: self._finish(operation))
        with self._lock:
            self._check_room(subject, kind)
            self._kept[operation.id] = operation
            self._working[operation.id] = working
        record(caller, verb, target, logged, "begun")
        self._on_change(operation)
        working.thread.start()
        return operation

    def _check_room(self, subject: str | None, kind: OperationKind) -> None:
        working = [each.operation for each in self._working.values() if each.operation.state is OperationState.RUNNING]
        others = [each for each in working if each.kind is kind]
        same = next((each for each in others if subject is not None and each.subject == subject), None)
        if same is not None:
            raise RequestRefused(
                f"{same.verb} of {same.target} is at work",
                status=HTTPStatus.CONFLICT,
                hint=f"Wait for it: GET /v1/operations/{same.id}; or stop it: POST /v1/operations/{same.id}:cancel.",
            )
        if len(others) >= MOST[kind] or not self._is_open:
            raise RequestRefused(
                f"{len(others)} operations that {kind} are at work",
                status=HTTPStatus.TOO_MANY_REQUESTS,
                hint="GET /v1/operations lists them; wait for one.",
                retry_after_s=5,
            )
        while len(self._kept) >= _KEPT_MAX:
            del self._kept[next(name for name in self._kept if name not in self._working)]

    def _finish(self, operation: LongOperation) -> None:
        with self._lock:
            self._working.pop(operation.id, None)
        self._on_change(operation)

    def all(self) -> list[LongOperation]:
        """Return all of them, the newest first."""
        with self._lock:
            return [*self._kept.values()][::-1]

    def get(self, name: str) -> LongOperation:
        """Return one of them.

        :raises RequestRefused: There is none of that name (any more).
        """
        with self._lock:
            found = self._kept.get(name)
        if found is None:
            raise RequestRefused(
                f"there is no operation {name}",
                status=HTTPStatus.NOT_FOUND,
                hint=f"GET /v1/operations lists the last {_KEPT_MAX}; they do not outlive the server.",
            )
        return found

    def cancel(self, name: str, caller: Caller) -> LongOperation:
        """Stop one as Ctrl-C stops its command; one that has ended stays as it is.

        :raises RequestRefused: There is none of that name (any more).
        :raises TokenRefused: A caller with more rights began it.
        """
        operation = self.get(name)
        if not operation.is_stopped_by(caller):
            raise TokenRefused(
                f"{operation.by.name} of role {operation.by.role} began it",
                status=HTTPStatus.FORBIDDEN,
                hint="Ask a user with that role.",
            )
        with self._lock:
            working = self._working.get(name)
        if working is not None:
            record(caller, f"cancel {operation.verb}", operation.target, {"operation": name}, "done")
            working.stop()
        return operation

    def close(self) -> None:
        """Stop all of them, and wait for a while until they have ended."""
        with self._lock:
            self._is_open = False
            working = [*self._working.values()]
        for each in working:
            each.stop()
        deadline = Deadline(_END_S)
        for each in working:
            each.thread.join(deadline.left_s)
