"""Which dead letters are replayed into which topic."""

from __future__ import annotations

import uuid
from dataclasses import replace

from isthmus.engine.batches.rebatch import Record
from isthmus.engine.mapped.letters import as_letter, read_letter
from isthmus.engine.mapped.transformer import DeadLetter
from isthmus.model.kafka.topic import TopicDescription
from isthmus.model.lane import Lane
from isthmus.model.naming import TargetTopic
from isthmus.recovery.letterreplay import select_due
from isthmus.recovery.letters import StoredLetter
from testing.values.letters import LETTERED


def stored(place: int, lane: Lane) -> StoredLetter:
    """A letter of a lane, in its log."""
    letter = read_letter(as_letter(DeadLetter(Record(place, 1, None, None, []), 0, False, "no"), lane, "east", place))
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
