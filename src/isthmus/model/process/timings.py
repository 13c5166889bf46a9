"""The intervals and waiting times of a run that are not settings: values, so that tests may choose them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings:
    """All of them in seconds.

    The file and the declarations are read every `follow_s`. A cluster may take `arrival_s` to answer when a run begins,
    and an end waits `farewell_s` for a ledger that may be away. Logs of both sides are compared every `audit_s`. A link
    is taken over after `silence_s` without its controller. Lanes that were detached have ended once their controller
    reports it. If it does not (an older release, or a lease that was lost), they have ended after `calm_s` without a
    report. A controller hears of a detachment sooner, and requests of a lost lease have arrived by then.

    A link whose cluster is away is tried again after `retry_s`, a loop of a link after `outage_s`, a topic that is
    refused after `refused_s`. A run that is to catch up waits `stuck_s` for an operator to act. A plan examines the
    partitions of a link for `look_s`, and reports the others as unexamined. A topic that was deleted at the source is
    deleted at the target, if configured, once it was missing for `deletion_s`.

    All groups are examined every `groups_s`, whether they committed or not, and the positions written for them are
    recorded every `remember_s`. A pass over all of them is given up after `patience_s`. A transaction that has been
    pending for `unstable_s` was begun by another client: those of ours are over by then.
    """

    follow_s: float = 2.0
    arrival_s: float = 15.0
    farewell_s: float = 1.0
    audit_s: float = 20.0
    silence_s: float = 10.0
    calm_s: float = 3.0
    retry_s: float = 2.0
    outage_s: float = 2.0
    refused_s: float = 30.0
    stuck_s: float = 30.0
    look_s: float = 30.0
    deletion_s: float = 60.0
    groups_s: float = 10.0
    remember_s: float = 2.0
    patience_s: float = 10.0
    unstable_s: float = 20.0


USUAL: Final = Timings()
