"""What is known of a partition's log."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LogRange:
    """A log's offsets `[start, end)`; what is before `stable_end` is in no open transaction."""

    start: int
    stable_end: int
    end: int
