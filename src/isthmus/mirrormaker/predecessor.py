"""The progress that MirrorMaker 2 reports: the records in which Kafka Connect keeps the positions of its source tasks.

The key is the name of a connector and a partition of the source, the value the offset of the last record that was
copied and acknowledged; a task that starts continues behind it. Sources: MirrorUtils.java (`wrapPartition`,
`wrapOffset`), MirrorSourceTask.java (`convertRecord`, `initializeConsumer`) and MirrorMakerConfig.java of Kafka's
connect/mirror.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import NamedTuple

from isthmus.model.naming import SourceTopic, SourceTopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Predecessor:
    """A flow of MirrorMaker 2 into a cluster: its name of the source, the topic that holds its positions, and the group
    of its workers: `None` if unknown, "" if it is not needed.
    """

    source_alias: str
    offsets_topic: str
    worker_group: str | None = None


class Progress(NamedTuple):
    """How far a connector has copied a partition of a source: its next offset, `None` if the position was deleted.
    `source_alias` is the connector's name of the source.
    """

    connector: str
    source_alias: str
    key: SourceTopicPartition
    next_offset: int | None


def progress_of(key: bytes | None, value: bytes | None) -> Progress | None:
    """Decode the progress in a record; `None` for records of connectors of other kinds."""
    try:
        connector, partition = json.loads(key or b"null")
        source_alias, topic, number = str(partition["cluster"]), str(partition["topic"]), int(partition["partition"])
        offset = None if value is None else json.loads(value)["offset"]
    except (ValueError, TypeError, KeyError):
        return None
    return Progress(
        str(connector), source_alias, (SourceTopic(topic), number), None if offset is None else int(offset) + 1
    )
