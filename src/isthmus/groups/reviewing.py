"""Choose how the positions of a link's groups go: carried by a mirror, or distributed in a tree."""

from __future__ import annotations

from collections.abc import Mapping

from isthmus.groups.memory import GroupMemory
from isthmus.groups.review import GroupReview, Review
from isthmus.groups.trees.distribution import DistributedReview
from isthmus.kafka.client import Client
from isthmus.ledger.documents.kinds import Document
from isthmus.model.link import Link


def review_of(
    link: Link, source: Client, target: Client, memory: GroupMemory, documents: Mapping[str, Document]
) -> Review:
    """Return the planner for the groups of a link. `documents` are the ledger's, always up to date."""
    if link.distributor is not None:
        return DistributedReview(link, link.distributor, source, target, memory, documents)
    return GroupReview(link, source, target, memory, documents)
