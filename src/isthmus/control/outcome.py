"""How a run ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from isthmus.control.progress import LinkProgress
from isthmus.errors import IsthmusError
from isthmus.model.latency import quantile_ms

_SIGNALLED = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """How a run ended: how the links stood, and why it ended.

    `is_caught_up` says that everything that could be copied was. `errors` are by link what ended it
    by itself. `signal` is the number of the signal that ended the run, if one did. `latency` is a
    histogram as in `model.latency`.
    """

    links: tuple[LinkProgress, ...]
    is_caught_up: bool = False
    errors: Mapping[str, IsthmusError] = field(default_factory=dict)
    signal: int | None = None
    duration_s: float = 0.0
    latency: tuple[int, ...] = ()

    @property
    def records(self) -> int:
        """Records copied."""
        return sum(link.records for link in self.links)

    @property
    def size_bytes(self) -> int:
        """Bytes of record batches copied."""
        return sum(link.size_bytes for link in self.links)

    @property
    def exit_code(self) -> int:
        """0 when all is well, else why it is not: see `errors`."""
        if self.signal is not None:
            return _SIGNALLED + self.signal
        if self.errors:
            first = next(iter(self.errors.values()))
            return first.exit_code if len(self.errors) == len(self.links) else 1
        return int(any(link.is_unfinished for link in self.links))

    def as_dict(self) -> dict[str, Any]:
        """Plain values under stable names."""
        return {
            "caught_up": self.is_caught_up,
            "records": self.records,
            "bytes": self.size_bytes,
            "seconds": round(self.duration_s, 3),
            "latency_p50_ms": _rounded(quantile_ms(self.latency, 0.5)),
            "latency_p99_ms": _rounded(quantile_ms(self.latency, 0.99)),
            "links": [link.as_dict() for link in self.links],
        }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)
