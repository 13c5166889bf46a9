"""Members of groups that brokers assign (KIP-848 and its kin) at a cluster that they came to. Pure."""

from __future__ import annotations

import struct
from typing import Final

from isthmus.gateway.frames.layout import Edit, MessageCursor
from isthmus.gateway.frames.messages import CONSUMER_GROUP_HEARTBEAT, SHARE_GROUP_HEARTBEAT, STREAMS_GROUP_HEARTBEAT
from isthmus.kafka import codes

_CODE: Final = struct.Struct(">h")
_NO_MEMBER: Final = 0
BEATING: Final = frozenset({CONSUMER_GROUP_HEARTBEAT, SHARE_GROUP_HEARTBEAT, STREAMS_GROUP_HEARTBEAT})
"""The heartbeats of such members."""


def is_joining(body: MessageCursor) -> bool:
    """Whether a heartbeat comes from a client that is not a member yet. If such a client gets GROUP_ID_NOT_FOUND the
    group is of another kind, and with an edited answer the client would retry for ever.
    """
    body.skip_text()
    body.skip_text()
    return body.int32() == _NO_MEMBER


def joining_anew(body: MessageCursor) -> list[Edit]:
    """Return the edits of the body of an answer to a heartbeat. A member whose group does not exist is answered as one
    that the group does not know, and joins then. Clients end for good at the cluster's own code, as no group with
    active members is deleted.
    """
    body.skip(4)
    begin = body.at
    is_gone = body.int16() == codes.GROUP_ID_NOT_FOUND
    return [Edit(begin, body.at, _CODE.pack(codes.UNKNOWN_MEMBER_ID))] if is_gone else []
