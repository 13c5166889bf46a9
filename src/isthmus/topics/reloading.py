"""Which topics a run still changes by another transform than the file has now, as far as its ledger tells. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from isthmus.ledger.documents.kinds import ControllerDocument, Document, LeaseDocument
from isthmus.model.link import Link
from isthmus.model.naming import TargetTopic


def awaiting_reload(link: Link, documents: Mapping[str, Document]) -> frozenset[TargetTopic]:
    """Return the topics that the tasks of the link's controller change otherwise than the link says."""
    controller = ControllerDocument.find(documents, link.name)
    if controller is None:
        return frozenset()
    return frozenset(
        lane.target_topic
        for lease in LeaseDocument.find_all(documents.values(), link.name)
        if lease.controller == controller.generation
        for lane in lease.lanes
        if not link.is_changed_by(lane.source_topic, lane.transform)
    )
