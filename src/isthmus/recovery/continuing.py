"""How an interrupted recovery of a topic continues, and what it waits for. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from isthmus.errors import GateNotMet
from isthmus.ledger.documents.kinds import RecoveryDocument, TopicDocument
from isthmus.model.kafka.topic import TopicDescription
from isthmus.model.links.recovery import RecoveryStage, RecoveryWay, RestoredPosition
from isthmus.model.naming import TargetTopic
from isthmus.model.text.wording import first_few


def going_on(
    document: RecoveryDocument, there: TopicDescription | None, recorded: TopicDocument | None
) -> RecoveryDocument | None:
    """Return how a recovery continues by the ledger alone; `None` where the target's logs have to be read again.

    That is so once the topic whose logs were compared is gone, whatever deleted it; and if the one created in its place
    is gone as well, it is created once more.
    """
    if document.stage == RecoveryStage.DONE or not document.partitions:
        return None
    there_id = None if there is None else there.topic_id
    if there_id == document.topic_id:
        return None
    if document.stage != RecoveryStage.REFILLING:
        return replace(document, stage=RecoveryStage.REBUILDING, way=RecoveryWay.REBUILD)
    if there_id == document.rebuilt_id:
        return document
    # The controller may have begun with the topic created in between: then that is the one it has to leave.
    has_begun = recorded is not None and recorded.target_topic_id == document.rebuilt_id
    former = document.rebuilt_id if has_begun else document.topic_id
    return replace(document, stage=RecoveryStage.REBUILDING, topic_id=former)


def not_refilled(
    link: str, topic: TargetTopic, wanted: Collection[RestoredPosition], *, is_run: bool, is_paused: bool
) -> GateNotMet:
    """Return the error that a topic is not filled yet as far as groups had read it, with what has to be done."""
    groups = sorted({each.group for each in wanted})
    first = "Run the link: isthmus run" if not is_run else "It is being filled"
    if is_paused:
        first = f"It is paused: isthmus resume {link}, with --topic {topic} or without"
    return GateNotMet(
        f"{topic} is there again and waits to be filled; then groups are put back: {first_few(groups)}",
        hint=f"{first}; then run the command again, which does the remaining steps.",
    )
