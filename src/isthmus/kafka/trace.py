"""Logs requests to brokers, with the time until the answer, at the level DEBUG."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

_log = logging.getLogger(__name__)
_unsafe_log = logging.getLogger(f"{__name__}.unsafe")
# Only enabled explicitly by this name: it may hold passwords and records.
_unsafe_log.setLevel(logging.WARNING)

Decode = Callable[[memoryview, int], Any]


def trace_unsafely() -> None:
    """Log requests and answers in full from now on, whatever secrets they hold."""
    for logger in (_log, _unsafe_log):
        logger.setLevel(logging.DEBUG)


def trace_answers(decode: Decode, where: str, request: Any, version: int) -> Decode:
    """Wrap `decode` to log the answer as well; without the level DEBUG return `decode` itself."""
    if not _log.isEnabledFor(logging.DEBUG):
        return decode
    asked_at = time.monotonic()
    _unsafe_log.debug("to %s: %r", where, request)

    def decode_and_log(payload: memoryview, correlation: int) -> Any:
        answer = decode(payload, correlation)
        took_ms = (time.monotonic() - asked_at) * 1000
        _log.debug("%s: %s v%d, %.1f ms, %d bytes", where, request.name, version, took_ms, len(payload))
        _unsafe_log.debug("from %s: %r", where, answer)
        return answer

    return decode_and_log
