"""How far MirrorMaker 2 says it has copied: the records in which Kafka Connect keeps the positions of its source tasks.

The key is the name of a connector and a partition of the source, the value the offset of the last record that was
copied and acknowledged; a task that starts goes on behind it. Sources: MirrorUtils.java (`wrapPartition`,
`wrapOffset`), MirrorSourceTask.java (`convertRecord`, `initializeConsumer`) and MirrorMakerConfig.java of Kafka's
connect/mirror.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True, kw_only=True)
class Predecessor:
    """A flow of MirrorMaker 2 into a cluster: what it calls its source, the topic that holds its positions, and the
    group of its workers: `None` where that is not known, "" where they go on without it and are not asked for.
    """

    source_alias: str
    offsets_topic: str
    worker_group: str | None = None


class Progress(NamedTuple):
    """How far a partition of the source was copied: its next offset, `None` where the position was taken back."""

    key: tuple[str, int]
    next_offset: int | None


def progress_of(key: bytes | None, value: bytes | None, source_alias: str) -> Progress | None:
    """What a record says of a partition of the source; `None` for records of other connectors and other sources."""
    try:
        _, partition = json.loads(key or b"null")
        if partition["cluster"] != source_alias:
            return None
        at = (str(partition["topic"]), int(partition["partition"]))
        offset = None if value is None else json.loads(value)["offset"]
    except (ValueError, TypeError, KeyError):
        return None
    return Progress(at, None if offset is None else int(offset) + 1)
