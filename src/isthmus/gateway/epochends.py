"""Where the logs of two clusters are the same: clients that come from one of them are told so. Pure.

Leader epochs of two clusters have nothing to do with each other. A consumer that comes from the other one asks where
the epoch ends under which it has read last (OffsetForLeaderEpoch), takes the answer for a log that was truncated, and
goes back. So no answer names an end before that of what both logs have in common.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from isthmus.gateway.layout import Edit, MessageCursor
from isthmus.wire import codes
from isthmus.wire.offsets import PartitionKey

_EPOCH_FROM = 1
_THROTTLED_FROM = 2
_EPOCH_AND_END = struct.Struct(">iq")
_END = struct.Struct(">q")


def epoch_ends_beyond(body: MessageCursor, version: int, ends: Mapping[PartitionKey, int]) -> list[Edit]:
    """What becomes other in the body of an answer, where partitions have so much in common with the other cluster.

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
                # An epoch that the log does not know comes as -1, which says that there is no end.
                written = _EPOCH_AND_END.pack(max(epoch, 0), common) if version >= _EPOCH_FROM else _END.pack(common)
                found.append(Edit(begin, body.at, written))
            body.skip_tags()
        body.skip_tags()
    return found
