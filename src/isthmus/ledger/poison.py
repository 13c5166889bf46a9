"""Warns about records of other programs in the ledger's topic that are no documents. They are ignored."""

from __future__ import annotations

import logging
from typing import Final

_log = logging.getLogger(__name__)
_TOLD_MAX: Final = 1_000
_told: set[str] = set()


def pass_over(what: str, error: Exception) -> None:
    """Warn once per process about a record that is ignored: the ledger is read again and again."""
    if what in _told or len(_told) >= _TOLD_MAX:
        return
    _told.add(what)
    _log.warning(
        "the ledger holds a record that is no document and is passed over: %.200s (%s: %.200s). Deny WRITE on its "
        "topic to all "
        "but Isthmus",
        what,
        type(error).__name__,
        error,
    )
