"""A dead letter as a record: the record as the source has it, and behind its own headers those below. Pure.

isthmus.kind            dead-letter
isthmus.cluster         the alias of the cluster that it comes from
isthmus.topic           where it stands there
isthmus.topic-id
isthmus.partition
isthmus.offset
isthmus.furthest        the highest offset of all letters of its partition so far, which are of the same target topic
isthmus.target-id       the target topic whose copy of the record was not made, by its id
isthmus.leader-epoch
isthmus.timestamp-type  CreateTime, or LogAppendTime for a time of the source's broker
isthmus.transform       the transform that failed, by its digest
isthmus.reason          why it failed
"""

from __future__ import annotations

import uuid
from typing import Final, NamedTuple

from isthmus.engine.batches.rebatch import Record
from isthmus.engine.mapped.transformer import DeadLetter
from isthmus.kafka.batches.records import Headers
from isthmus.model.lane import Lane

KIND: Final = "isthmus.kind"
DEAD_LETTER: Final = b"dead-letter"
_NAMES: Final = (
    KIND,
    "isthmus.cluster",
    "isthmus.topic",
    "isthmus.topic-id",
    "isthmus.partition",
    "isthmus.offset",
    "isthmus.furthest",
    "isthmus.target-id",
    "isthmus.leader-epoch",
    "isthmus.timestamp-type",
    "isthmus.transform",
    "isthmus.reason",
)
_TIMES: Final = (b"CreateTime", b"LogAppendTime")
_REASON_CHARACTERS_MAX: Final = 2_000


class Letter(NamedTuple):
    """A dead letter: where its record stands at the source, and the transform that failed, by its digest.

    The record has the offset, the timestamp (ms) and the headers that it has at the source. No earlier letter of its
    lane has a higher offset than `furthest`: what one owner of the lane could not change may stand before what the
    owner before could not. `target_id` is that of the target topic.
    """

    cluster: str
    topic: str
    topic_id: uuid.UUID
    partition: int
    furthest: int
    target_id: uuid.UUID
    epoch: int
    transform: str
    reason: str
    is_appended: bool
    record: Record

    @property
    def place(self) -> tuple[int, int]:
        """The source offset and leader epoch: no other record of the topic's partition has the same."""
        return self.record.offset, self.epoch

    def is_of(self, lane: Lane) -> bool:
        """Whether the lane left its record out: from the same topic into the same topic, neither created again."""
        return (self.topic_id, self.target_id) == (lane.source_topic_id, lane.target_topic_id)


def as_letter(dead: DeadLetter, lane: Lane, cluster: str, furthest: int) -> Record:
    """Return the record to write for a dead letter of a lane that comes from a cluster."""
    values = (
        DEAD_LETTER,
        cluster.encode(),
        lane.source_topic.encode(),
        str(lane.source_topic_id).encode(),
        b"%d" % lane.partition,
        b"%d" % dead.record.offset,
        b"%d" % furthest,
        str(lane.target_topic_id).encode(),
        b"%d" % dead.epoch,
        _TIMES[dead.is_appended],
        lane.transform.encode(),
        dead.reason[:_REASON_CHARACTERS_MAX].encode(errors="replace"),
    )
    headers: Headers = [*dead.record.headers, *zip(_NAMES, values, strict=True)]
    return dead.record._replace(headers=headers)


def read_letter(record: Record) -> Letter | None:
    """Return the dead letter that a record of the topic is; `None` for one that another program wrote there."""
    own, rest = record.headers[-len(_NAMES) :], record.headers[: -len(_NAMES)]
    values = [value or b"" for _, value in own]
    if tuple(name for name, _ in own) != _NAMES or values[0] != DEAD_LETTER:
        return None
    cluster, topic, topic_id, partition, offset, furthest, target_id, epoch, time, transform, reason = values[1:]
    try:
        return Letter(
            cluster=cluster.decode(),
            topic=topic.decode(),
            topic_id=uuid.UUID(topic_id.decode()),
            partition=int(partition),
            furthest=int(furthest),
            target_id=uuid.UUID(target_id.decode()),
            epoch=int(epoch),
            transform=transform.decode(),
            reason=reason.decode(),
            is_appended=bool(_TIMES.index(time)),
            record=record._replace(offset=int(offset), headers=rest),
        )
    except ValueError:
        return None
