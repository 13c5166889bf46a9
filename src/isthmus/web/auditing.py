"""The line in the log that each change leaves, also a refused one: who, what, the difference, and how it ended."""

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

from isthmus.control.answers import acting_as, now_ms
from isthmus.errors import IsthmusError, RequestRefused
from isthmus.web.guard import Caller

_audit = logging.getLogger("isthmus.audit")
_TRAIL_MAX: Final = 1000
_RESULT_MAX: Final = 300
_LOOKING: Final = ("GET", "HEAD", "OPTIONS")
_trail: deque[Audited] = deque(maxlen=_TRAIL_MAX)
_refused: deque[Audited] = deque(maxlen=_TRAIL_MAX)
"""Apart: who may change nothing cannot have forgotten what others have changed."""
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
    """The last thousand changes of this process, and those that were refused, the newest first. The log has all."""
    return sorted([*_trail, *_refused], key=lambda each: each.at_ms)[::-1]


@contextlib.contextmanager
def audited(
    caller: Caller, what: str, target: str, wanted: Mapping[str, Any] | None = None
) -> Iterator[dict[str, Any]]:
    """A line in the log, whatever happens; what else changes is to be put into the value it gives. Ledgers have the
    caller as the author of what is written meanwhile.
    """
    difference = dict(wanted or {})
    result = "failed: ISTH-INVARIANT"
    try:
        with acting_as(caller.author):
            yield difference
        result = "done"
    except IsthmusError as error:
        result = _failed(error)
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
    """Write one line of a request that was refused before anything was tried, if it asked for a change: `what` is its
    method and its path as openapi.json has it. Who is not known leaves none.
    """
    route, caller = request.scope.get("route"), getattr(request.state, "caller", None)
    if request.method in _LOOKING or route is None or caller is None or error in _recorded:
        return
    target = " ".join(request.path_params.values())
    _line(_refused, caller, f"{request.method} {route.path}", target, dict(request.query_params), _failed(error))


def _failed(error: IsthmusError) -> str:
    is_refused = isinstance(error, RequestRefused)
    told = f"refused: {error.error_code}: {error.message}" if is_refused else f"failed: {error.error_code}"
    return told[:_RESULT_MAX]


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
