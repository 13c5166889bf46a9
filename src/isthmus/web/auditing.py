"""The line in the log that each change leaves: who, what, the difference, and how it ended."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Iterator, Mapping
from typing import Any

from isthmus.errors import IsthmusError
from isthmus.web.guard import Caller

_audit = logging.getLogger("isthmus.audit")


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
    line = {"who": caller.name, "role": caller.role, "what": what, "target": target}
    _audit.info("%s", json.dumps({**line, "difference": difference, "result": result}, default=str))
