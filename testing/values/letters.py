"""A lane whose records become dead letters."""

from __future__ import annotations

import uuid
from typing import Final

from isthmus.model.lane import Lane
from isthmus.model.naming import SourceTopic, TargetTopic

LETTERED: Final = Lane(
    source_topic=SourceTopic("orders"),
    source_topic_id=uuid.UUID(int=3),
    target_topic=TargetTopic("orders"),
    target_topic_id=uuid.UUID(int=4),
    partition=0,
)
