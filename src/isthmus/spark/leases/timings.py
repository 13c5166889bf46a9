"""The waiting times of the driver for leases that no operator sets: values, so that tests may choose them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from isthmus.spark.leases.tenure import REVOCATION_S


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTimings:
    """All of them in seconds.

    New slots are looked for every `grow_s`, and lanes move between slots that have some every `balance_s` at most.
    Waits for the ledger look every `retry_s`. Consecutive leases that live less than `short_life_s` are followed
    after the pauses of `back_off_s`, the last pause for all further ones. Spark is asked for a task that was heard
    and then is silent for `lost_s`. One that is silent for `stall_s`, twice its longest pause, may be stuck; its
    receipt is waited for `grace_s`. A lease that may still run counts as over after `revocation_s`, which must not
    be less than `tenure` needs. An end waits `farewell_s` for leases that end by the ledger, and `cancelling_s` for
    those that Spark ends.
    """

    grow_s: float = 5.0
    balance_s: float = 20.0
    retry_s: float = 0.2
    back_off_s: tuple[float, ...] = (0.0, 0.5, 1.0, 2.0, 5.0, 10.0)
    short_life_s: float = 5.0
    lost_s: float = 10.0
    stall_s: float = 20.0
    grace_s: float = 5.0
    revocation_s: float = REVOCATION_S
    farewell_s: float = 2.0
    cancelling_s: float = 5.0


USUAL_OF_LEASES: Final = LeaseTimings()
