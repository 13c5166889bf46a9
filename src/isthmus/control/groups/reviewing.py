"""Choose how the positions of a link's groups go: carried by a mirror, or distributed in a tree."""

from __future__ import annotations

from collections.abc import Mapping

from isthmus.control.groups.distribution import DistributedReview
from isthmus.control.groups.memory import GroupMemory
from isthmus.control.groups.review import GroupReview, Review
from isthmus.ledger.documents import Document
from isthmus.model.link import Link
from isthmus.wire.client import Client


def review_of(
    link: Link, source: Client, target: Client, memory: GroupMemory, documents: Mapping[str, Document]
) -> Review:
    """Return the planner for the groups of a link. `documents` are the ledger's, always up to date."""
    if link.distributor is not None:
        return DistributedReview(link, link.distributor, source, target, memory, documents)
    return GroupReview(link, source, target, memory, documents)
