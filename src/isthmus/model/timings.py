"""How often a run looks, and how long it waits, where no operator decides that: values, so that tests may choose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings:
    """All of them in seconds.

    What the file and what is declared say is looked at every `follow_s`. A cluster may take `arrival_s` to answer when
    a run begins, and an end waits `farewell_s` for a ledger that may be away. Logs of both sides are held against each
    other every `audit_s`. A link is taken over after `silence_s` without its controller. Lanes that were detached have
    ended once their controller says so. If it does not (an older release, or a lease that was lost), they have ended
    once nothing was heard of them for `calm_s`. A controller hears of a detachment sooner, and what a lost lease had
    sent has come by then.

    A link whose cluster is away is tried again after `retry_s`, a loop of a link after `outage_s`, a topic that is
    refused after `refused_s`. A run that is to catch up waits `stuck_s` for somebody to act. A plan looks at the
    partitions of a link for `look_s`, and tells what it has not seen by then as unexamined. A topic that the source has
    deleted is deleted at the target, where that is to be, once it was missing for `deletion_s`.

    All groups are looked at every `groups_s`, whether they committed or not, and what was written for them is
    remembered every `remember_s`. A pass over all of them is given up after `patience_s`. What is pending in a
    transaction for `unstable_s` was begun by somebody else: those of ours are over by then.
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
