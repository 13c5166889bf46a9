"""Where the log goes: apart from all other settings, since every command asks for it before it does anything."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """Where all that is logged is kept, `None` for nowhere: a file of so many bytes at most, and `keep` before it."""

    file: str | None = None
    size_bytes: int = 50 << 20
    keep: int = 5
