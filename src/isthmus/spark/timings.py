"""How long the driver waits for leases, where no operator decides that: values, so that tests may choose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from isthmus.spark.tenure import REVOCATION_S


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTimings:
    """All of them in seconds.

    Whether more slots have come is looked at every `grow_s`, what waits for the ledger looks every `retry_s`. Leases
    that lived less than `short_life_s` one after the other are followed after the pauses of `back_off_s`, the last one
    for all further ones. A task that was heard and then says nothing for `stall_s`, twice its longest pause, may be
    stuck; what it left is waited for `grace_s`. A lease of which nobody knows whether it runs counts as over after
    `revocation_s`, which may not be less than what `tenure` needs. An end waits `farewell_s` for leases that end by the
    ledger, and `cancelling_s` for those that Spark ends.
    """

    grow_s: float = 5.0
    retry_s: float = 0.2
    back_off_s: tuple[float, ...] = (0.0, 0.5, 1.0, 2.0, 5.0, 10.0)
    short_life_s: float = 5.0
    stall_s: float = 20.0
    grace_s: float = 5.0
    revocation_s: float = REVOCATION_S
    farewell_s: float = 2.0
    cancelling_s: float = 5.0


USUAL_OF_LEASES: Final = LeaseTimings()
