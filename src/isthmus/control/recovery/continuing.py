"""How the recovery of a topic goes on after it was cut off, and what it waits for. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from isthmus.errors import GateNotMet
from isthmus.ledger.documents import RecoveryDocument, TopicDocument
from isthmus.model.naming import TargetTopic
from isthmus.model.recovery import RecoveryStage, RecoveryWay, RestoredPosition
from isthmus.model.topic import TopicDescription
from isthmus.model.wording import first_few


def going_on(
    document: RecoveryDocument, there: TopicDescription | None, recorded: TopicDocument | None
) -> RecoveryDocument | None:
    """How a recovery goes on that the ledger, not the target's logs, says all of; `None` where those are asked anew.

    That is so once its topic is gone whose logs were compared, whoever has deleted it; and if the one that was created
    in its place is gone as well, it is created once more.
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
    # Whoever runs the link has perhaps begun the one in between: then it is that which it is to leave.
    has_begun = recorded is not None and recorded.target_topic_id == document.rebuilt_id
    former = document.rebuilt_id if has_begun else document.topic_id
    return replace(document, stage=RecoveryStage.REBUILDING, topic_id=former)


def not_refilled(
    link: str, topic: TargetTopic, wanted: Collection[RestoredPosition], *, is_run: bool, is_paused: bool
) -> GateNotMet:
    """That a topic is not filled yet as far as groups had read it, and who is to do what."""
    groups = sorted({each.group for each in wanted})
    first = "Run the link: isthmus run" if not is_run else "It is being filled"
    if is_paused:
        first = f"It is paused: isthmus resume {link}, with --topic {topic} or without"
    return GateNotMet(
        f"{topic} is there again and waits to be filled; then groups are put back: {first_few(groups)}",
        hint=f"{first}; then give the command again, which does what is left.",
    )
