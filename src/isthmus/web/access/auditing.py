"""The line in the log that each change leaves, also a refused one: the caller, the action, the difference, and the
result.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import weakref
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from fastapi import Request

from isthmus.errors import IsthmusError, RequestRefused
from isthmus.fabric.answers import acting_as, now_ms
from isthmus.web.access.guard import Caller

_audit = logging.getLogger("isthmus.audit")
_TRAIL_MAX: Final = 1000
_RESULT_MAX: Final = 300
_LOOKING: Final = ("GET", "HEAD", "OPTIONS")
_trail: deque[Audited] = deque(maxlen=_TRAIL_MAX)
_refused: deque[Audited] = deque(maxlen=_TRAIL_MAX)
"""Apart: callers without the right to change anything cannot displace the changes of others."""
_recorded: weakref.WeakSet[IsthmusError] = weakref.WeakSet()


@dataclass(frozen=True, slots=True, kw_only=True)
class Audited:
    """A change that was made or tried."""

    at_ms: int
    who: str
    role: str
    what: str
    target: str
    difference: Mapping[str, Any]
    result: str


def trail() -> list[Audited]:
    """Return the last thousand changes of this process, and the refused ones, the newest first. The log has all."""
    return sorted([*_trail, *_refused], key=lambda each: each.at_ms)[::-1]


@contextlib.contextmanager
def log_change(
    caller: Caller, what: str, target: str, wanted: Mapping[str, Any] | None = None
) -> Iterator[dict[str, Any]]:
    """Write a line in the log, whatever happens; the block adds further changes to the yielded value. In ledgers the
    caller is the author of all writes in the block.
    """
    difference = dict(wanted or {})
    result = "failed: ISTH-INVARIANT"
    try:
        with acting_as(caller.author):
            yield difference
        result = "done"
    except IsthmusError as error:
        result = _describe_failure(error)
        _recorded.add(error)
        raise
    except asyncio.CancelledError:
        result = "cancelled"
        raise
    finally:
        record(caller, what, target, difference, result)


def record(caller: Caller, what: str, target: str, difference: Mapping[str, Any], result: str) -> None:
    """Write one line."""
    _line(_trail, caller, what, target, difference, result)


def record_refusal(request: Request, error: IsthmusError) -> None:
    """Write one line about a request for a change that was refused before anything was tried: `what` is its method and
    its path as openapi.json has it. An unknown caller leaves none.
    """
    route, caller = request.scope.get("route"), getattr(request.state, "caller", None)
    if request.method in _LOOKING or route is None or caller is None or error in _recorded:
        return
    target = " ".join(request.path_params.values())
    _line(
        _refused, caller, f"{request.method} {route.path}", target, dict(request.query_params), _describe_failure(error)
    )


def _describe_failure(error: IsthmusError) -> str:
    is_refused = isinstance(error, RequestRefused)
    result = f"refused: {error.error_code}: {error.message}" if is_refused else f"failed: {error.error_code}"
    return result[:_RESULT_MAX]


def _line(
    trail: deque[Audited], caller: Caller, what: str, target: str, difference: Mapping[str, Any], result: str
) -> None:
    trail.append(
        Audited(
            at_ms=now_ms(),
            who=caller.name,
            role=str(caller.role),
            what=what,
            target=target,
            difference=dict(difference),
            result=result,
        )
    )
    line = {"who": caller.name, "role": caller.role, "what": what, "target": target}
    _audit.info("%s", json.dumps({**line, "difference": difference, "result": result}, default=str))
