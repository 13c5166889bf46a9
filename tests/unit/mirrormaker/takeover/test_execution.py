"""What a second take-over tells of MirrorMaker 2 having gone on since the first."""

from __future__ import annotations

import pytest

from isthmus.kafka.metadata import NO_TOPIC_ID
from isthmus.ledger.documents.kinds import MapDocument
from isthmus.mirrormaker.takeover.execution import _ahead
from isthmus.mirrormaker.takeover.plan import TopicTakeover
from isthmus.model.kafka.topic import TopicIds
from isthmus.model.lane import LaneKey
from isthmus.model.naming import SourceTopic, SourceTopicPartition, TargetTopic
from isthmus.model.offsets import Cursor

TOPIC = TopicTakeover(
    topic=TargetTopic("east.orders"),
    source_topic=SourceTopic("orders"),
    ids=TopicIds(source_topic=SourceTopic("orders"), source=NO_TOPIC_ID, target=NO_TOPIC_ID, is_mapped=True),
)
SEGMENT = MapDocument(
    link="l",
    topic=TOPIC.topic,
    partition=0,
    segment="taken-over.0",
    ordinal_begin=0,
    ranges=(),
    cursor=Cursor(40, 0, 50, continues_another=True),
)


@pytest.mark.parametrize(
    ("committed", "is_ahead"),
    [
        ({("orders", 0): 40}, False),
        ({("orders", 0): 41}, True),
        # It was empty and had no position: there is no map of it.
        ({("orders", 0): 40, ("orders", 1): 3}, True),
        ({("orders", 0): 40, ("payments", 1): 3}, False),
    ],
)
def test_a_position_beyond_what_the_link_has_copied_was_written_since(
    committed: dict[SourceTopicPartition, int], *, is_ahead: bool
) -> None:
    """All that came after it would be copied again, also into a partition that had held nothing before."""
    found = _ahead(TOPIC, committed, {LaneKey(TOPIC.topic, 0): [SEGMENT]})
    assert (found is not None) is is_ahead
