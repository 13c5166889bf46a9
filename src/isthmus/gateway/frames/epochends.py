"""Answers to OffsetForLeaderEpoch for clients that come from another cluster with the same logs. Pure.

Leader epochs of two clusters are unrelated. A consumer that comes from the other one asks for the end of the epoch that
it has read last (OffsetForLeaderEpoch), takes a lower end for a truncated log, and goes back. So no answer has an end
before that of the common part of both logs.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from isthmus.gateway.frames.layout import Edit, MessageCursor
from isthmus.kafka import codes
from isthmus.kafka.log.listoffsets import PartitionKey

_EPOCH_FROM = 1
_THROTTLED_FROM = 2
_EPOCH_AND_END = struct.Struct(">iq")
_END = struct.Struct(">q")


def epoch_ends_beyond(body: MessageCursor, version: int, ends: Mapping[PartitionKey, int]) -> list[Edit]:
    """Return the edits of the body of an answer, for partitions that equal the other cluster's up to these ends.

    :raises Short: More of it is needed.
    :raises ValueError: It is no such answer.
    """
    found = []
    if version >= _THROTTLED_FROM:
        body.skip(4)
    for _ in range(body.count()):
        topic = body.text() or ""
        for _ in range(body.count()):
            code, partition, begin = body.int16(), body.int32(), body.at
            epoch = body.int32() if version >= _EPOCH_FROM else 0
            end, common = body.int64(), ends.get((topic, partition), -1)
            if code == codes.NONE and end < common:
                # An epoch that the log does not know is -1, which means that there is no end.
                written = _EPOCH_AND_END.pack(max(epoch, 0), common) if version >= _EPOCH_FROM else _END.pack(common)
                found.append(Edit(begin, body.at, written))
            body.skip_tags()
        body.skip_tags()
    return found
