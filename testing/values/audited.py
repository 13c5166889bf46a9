"""A lane that an audit looks at."""

from __future__ import annotations

import uuid

from isthmus.model.lane import Lane
from isthmus.model.naming import SourceTopic, TargetTopic

LANE = Lane(
    source_topic=SourceTopic("orders"),
    source_topic_id=uuid.uuid4(),
    target_topic=TargetTopic("orders"),
    target_topic_id=uuid.uuid4(),
    partition=0,
)
