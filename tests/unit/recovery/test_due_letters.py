"""Which dead letters are replayed into which topic."""

from __future__ import annotations

import uuid
from dataclasses import replace

from isthmus.engine.batches.rebatch import Record
from isthmus.engine.mapped.letters import as_letter, read_letter
from isthmus.engine.mapped.transformer import DeadLetter
from isthmus.model.kafka.topic import TopicDescription
from isthmus.model.lane import Lane
from isthmus.model.links.recovery import OffsetRuns
from isthmus.model.naming import TargetTopic
from isthmus.recovery.letterreplay import select_due, select_pending
from isthmus.recovery.letters import StoredLetter
from testing.values.letters import LETTERED


def stored(place: int, lane: Lane, offset: int | None = None) -> StoredLetter:
    """A letter of a lane, in its log."""
    record = Record(place if offset is None else offset, 1, None, None, [])
    letter = read_letter(as_letter(DeadLetter(record, 0, False, "no"), lane, "east", record.offset))
    assert letter is not None
    return StoredLetter(place, letter)


def test_letters_of_a_former_target_are_not_replayed_into_the_present_one() -> None:
    """It was given all records again. Another topic gets them all."""
    letters = [stored(1, LETTERED), stored(2, replace(LETTERED, target_topic_id=uuid.UUID(int=9)))]
    own = TopicDescription(
        name="orders", topic_id=uuid.UUID(int=9), partition_count=1, replication_factor=1, configs={}
    )
    assert select_due(letters, TargetTopic("orders"), own) == letters[1:]
    assert select_due(letters, TargetTopic("orders"), replace(own, name="corrected")) == letters


def test_a_record_with_several_letters_is_replayed_once() -> None:
    """It failed for one target topic after the other: the last letter counts, and any of them that was replayed."""
    again = replace(LETTERED, target_topic_id=uuid.UUID(int=9))
    letters = [stored(1, LETTERED, 7), stored(2, LETTERED, 8), stored(3, again, 7), stored(4, again, 9)]
    assert select_pending(letters, OffsetRuns()) == [letters[2], letters[1], letters[3]]
    assert select_pending(letters, OffsetRuns([1])) == [letters[1], letters[3]]
    assert select_pending(letters, OffsetRuns([3, 4])) == [letters[1]]
