"""Members of groups that brokers assign (KIP-848 and its kin) at a cluster that they came to. Pure."""

from __future__ import annotations

import struct
from typing import Final

from isthmus.gateway.layout import Edit, MessageCursor
from isthmus.gateway.messages import CONSUMER_GROUP_HEARTBEAT, SHARE_GROUP_HEARTBEAT, STREAMS_GROUP_HEARTBEAT
from isthmus.wire import codes

_CODE: Final = struct.Struct(">h")
_NO_MEMBER: Final = 0
BEATING: Final = frozenset({CONSUMER_GROUP_HEARTBEAT, SHARE_GROUP_HEARTBEAT, STREAMS_GROUP_HEARTBEAT})
"""By what such members are heard."""


def is_joining(body: MessageCursor) -> bool:
    """Whether the body of a heartbeat is that of somebody who is no member yet. Told that there is no such group, he
    meets one of another kind, and would ask for ever.
    """
    body.skip_text()
    body.skip_text()
    return body.int32() == _NO_MEMBER


def joining_anew(body: MessageCursor) -> list[Edit]:
    """What becomes other in the body of an answer to a heartbeat. A member whose group is not there is one that the
    group does not know: it joins then. By what the cluster says clients end for good, as no group goes away whose
    members are at work.
    """
    body.skip(4)
    begin = body.at
    is_gone = body.int16() == codes.GROUP_ID_NOT_FOUND
    return [Edit(begin, body.at, _CODE.pack(codes.UNKNOWN_MEMBER_ID))] if is_gone else []
