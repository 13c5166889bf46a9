"""The line in the log that each change leaves: who, what, the difference, and how it ended."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from isthmus.control.answers import now_ms
from isthmus.errors import IsthmusError
from isthmus.web.guard import Caller

_audit = logging.getLogger("isthmus.audit")
_TRAIL_MAX: Final = 1000
_trail: deque[Audited] = deque(maxlen=_TRAIL_MAX)


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
    """The last thousand changes of this process, the newest first. The log has all of them."""
    return [*_trail][::-1]


@contextlib.contextmanager
def audited(
    caller: Caller, what: str, target: str, wanted: Mapping[str, Any] | None = None
) -> Iterator[dict[str, Any]]:
    """A line in the log, whatever happens; what else changes is to be put into the value it gives."""
    difference = dict(wanted or {})
    result = "failed: ISTH-INVARIANT"
    try:
        yield difference
        result = "done"
    except IsthmusError as error:
        result = f"failed: {error.error_code}"
        raise
    except asyncio.CancelledError:
        result = "cancelled"
        raise
    finally:
        record(caller, what, target, difference, result)


def record(caller: Caller, what: str, target: str, difference: Mapping[str, Any], result: str) -> None:
    """Write one line."""
    _trail.append(
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
