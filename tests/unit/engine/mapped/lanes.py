"""A mapped lane."""

from __future__ import annotations

import uuid

from isthmus.model.lane import Lane
from isthmus.model.naming import SourceTopic, TargetTopic

LANE = Lane(
    source_topic=SourceTopic("orders"),
    source_topic_id=uuid.UUID(int=1),
    target_topic=TargetTopic("copies"),
    target_topic_id=uuid.UUID(int=2),
    partition=0,
    is_mapped=True,
)
