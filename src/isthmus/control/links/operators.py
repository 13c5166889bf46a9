"""Several operators at one link: who gives leaders and followers another place sees who recovers it."""

from __future__ import annotations

from isthmus.control.links.host import liveness_of
from isthmus.control.links.memory import LinkMemory, now_ms, recollect
from isthmus.errors import PlanRefused
from isthmus.ledger.documents import RecoveryClaimDocument
from isthmus.ledger.link import SILENCE_S
from isthmus.model.whereabouts import Liveness
from isthmus.wire.client import Client


async def require_nobody_recovers(link: str, target: Client) -> None:
    """See that nobody recovers a link now.

    :raises PlanRefused: Somebody does.
    :raises ClusterError: The ledger cannot be read.
    """
    check_not_recovered(link, await recollect(link, target))


def check_not_recovered(link: str, known: LinkMemory) -> None:
    """See that nobody recovers a link, as far as is known of it.

    :raises PlanRefused: Somebody does.
    """
    found = known.documents.get(f"{RecoveryClaimDocument.KIND}/{link}")
    if not isinstance(found, RecoveryClaimDocument):
        return
    is_heard = known.document_age_s(found, now_ms()) < SILENCE_S
    if is_heard and liveness_of(found.whereabouts) is not Liveness.DEAD:
        raise recovered(link, found.by)


def recovered(link: str, by: str) -> PlanRefused:
    """That somebody else recovers a link."""
    return PlanRefused(
        f"{by} recovers link {link} now",
        hint=f"Wait for its end; if it was killed, that shows within {SILENCE_S:g} s. Then give this command again.",
    )
