"""Several operators on one link: a verb that changes leaders and followers, and a recovery, notice each other.

A claim holds as long as its heartbeats come, as for a controller (hearing.py): clocks of two hosts may differ.
"""

from __future__ import annotations

import asyncio
from typing import Final

from isthmus.deadline import Deadline
from isthmus.errors import PlanRefused
from isthmus.kafka.client import Client
from isthmus.ledger.documents.kinds import RecoveryClaimDocument
from isthmus.ledger.documents.recovery import RECOVERS
from isthmus.ledger.pulse import SILENCE_S
from isthmus.local.host import goes_by_our_clock, liveness_of
from isthmus.memory.links import now_ms, recollect
from isthmus.model.process.whereabouts import Liveness

_LOOK_S: Final = 0.25


async def require_nobody_recovers(
    link: str, target: Client, silent: RecoveryClaimDocument | None = None
) -> RecoveryClaimDocument | None:
    """Require that no process recovers a link now; return the claim left by one that no longer does, if there is one.
    For another host that takes ten seconds of silence, unless the claim is the one known as `silent`.

    :raises PlanRefused: A process does.
    :raises ClusterError: The ledger cannot be read.
    """
    known = await recollect(link, target)
    found = RecoveryClaimDocument.find(known.documents, link)
    if found is None or found == silent or _has_ended(found):
        return found
    if goes_by_our_clock(found.whereabouts):
        if known.document_age_s(found, now_ms()) < SILENCE_S:
            raise build_recovering(link, found.by, found.does)
        return found
    deadline = Deadline(SILENCE_S)
    while not deadline.has_passed:
        await asyncio.sleep(_LOOK_S)
        now = RecoveryClaimDocument.find((await recollect(link, target)).documents, link)
        if now is None:
            return None
        if now != found:
            raise build_recovering(link, now.by, now.does)
    return found


def _has_ended(claim: RecoveryClaimDocument) -> bool:
    return liveness_of(claim.whereabouts) is Liveness.DEAD


def build_recovering(link: str, by: str, does: str = RECOVERS) -> PlanRefused:
    """Return the error that another process recovers a link, or lets go of it."""
    return PlanRefused(
        f"{by} {does} link {link} now",
        hint=f"Wait for its end; if it was killed, that shows within {SILENCE_S:g} s. Then give this command again.",
    )
