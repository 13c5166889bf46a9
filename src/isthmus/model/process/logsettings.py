"""The settings of the log: apart from all others, since every command needs them before it does anything."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """The file that the log is written to, `None` for none; its size in bytes at most, and `keep` older files before
    it.
    """

    file: str | None = None
    size_bytes: int = 50 << 20
    keep: int = 5
