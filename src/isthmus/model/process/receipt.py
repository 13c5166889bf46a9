"""The receipt of a lease, as its task reports it."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from isthmus.model.lane import LaneReport
from isthmus.model.problem import Problem

LOST = "LOST"
"""In place of an ending: no report of the lease ever came."""


class Ending(enum.StrEnum):
    """The reason why a lease ended."""

    TERM = "TERM"
    """Its time was over."""
    SUCCEEDED = "SUCCEEDED"
    """Its successor was ready, or waited for its slot."""
    REVOKED = "REVOKED"
    """The controller wanted it to end."""
    SUPERSEDED = "SUPERSEDED"
    """Another controller has taken the link over."""
    ORPHANED = "ORPHANED"
    """Its controller has stopped reporting."""
    RETRIED = "RETRIED"
    """Spark started the task a second time by itself; that one must not write."""
    FAILED = "FAILED"
    """A bug of ours; see `problem`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """The result of a lease.

    `has_written` says that it was allowed to write at all, `is_clean` that no request of it is still on its way,
    `is_released` that the ledger says so. `latency` is a histogram as in `model.latency`. `cpu_s` is the time the
    Python worker computed, or its share of that where several leases share a worker, `memory_bytes` the most memory the
    worker ever had, `duration_s` how long the lease lasted, and `throttled_source_s` and `throttled_target_s` for how
    long quotas of the brokers had it wait, of all brokers together.
    """

    slot: int
    generation: int
    ending: Ending
    has_written: bool = False
    is_clean: bool = True
    is_released: bool = False
    reports: tuple[LaneReport, ...] = ()
    latency: tuple[int, ...] = ()
    cpu_s: float = 0.0
    memory_bytes: int = 0
    duration_s: float = 0.0
    throttled_source_s: float = 0.0
    throttled_target_s: float = 0.0
    problem: Problem | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTotals:
    """The totals of all leases of a link since its run began: how many ended and how, the time (s) they computed, the
    most memory a worker ever had, and for how long (s) quotas had them wait.
    """

    endings: Mapping[str, int] = field(default_factory=dict)
    cpu_s: float = 0.0
    memory_bytes_max: int = 0
    throttled_source_s: float = 0.0
    throttled_target_s: float = 0.0

    def add_lease(self, receipt: Receipt | None) -> LeaseTotals:
        """Add one more lease, perhaps without a receipt."""
        ending = LOST if receipt is None else str(receipt.ending)
        endings = {**self.endings, ending: self.endings.get(ending, 0) + 1}
        if receipt is None:
            return replace(self, endings=endings)
        return LeaseTotals(
            endings=endings,
            cpu_s=self.cpu_s + receipt.cpu_s,
            memory_bytes_max=max(self.memory_bytes_max, receipt.memory_bytes),
            throttled_source_s=self.throttled_source_s + receipt.throttled_source_s,
            throttled_target_s=self.throttled_target_s + receipt.throttled_target_s,
        )
