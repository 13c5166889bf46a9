"""Producer ids in answers: mark those without transactions with their cluster. Pure."""

from __future__ import annotations

import struct
from typing import Final

from isthmus.gateway.frames.layout import Edit, MessageCursor
from isthmus.model.gateways.producerids import tagged_producer_id

_ID: Final = struct.Struct(">q")


def tag_producer(body: MessageCursor, tag: int, stay: int) -> list[Edit]:
    """Return the edits of the body of an answer to InitProducerId, when clients have moved `stay` times.

    :raises Short: More of it is needed.
    """
    body.skip(6)
    begin = body.at
    given = body.int64()
    found = tagged_producer_id(given, tag, stay)
    return [] if found == given else [Edit(begin, body.at, _ID.pack(found))]
