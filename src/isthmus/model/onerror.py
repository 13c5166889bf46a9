"""What becomes of records that a transform cannot change: said by links, and known to lanes."""

from __future__ import annotations

import enum


class OnError(enum.StrEnum):
    """What becomes of a record that a transform fails on."""

    STOP = "stop"
    """Its partition stops before it."""
    SKIP = "skip"
    """It is left out, and counted."""
    DEAD_LETTER = "dead-letter"
    """It is left out, and written to a topic of the target, as it was."""
