"""Requests about names that are reserved for links: refuse the reserved ones, and let the others pass. Pure.

Operations that access rules of a reservation would deny are refused, with the same codes
(`model/links/reservation.py`). The rest of the request passes: reserved topics are cut out of it, and inserted into the
broker's answer.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from functools import partial
from typing import Final

from isthmus.gateway.frames.cutting import Insertion, Ruling, build_answer, edit_request, items_of
from isthmus.gateway.frames.layout import Edit, MessageCursor, request_body, written_count
from isthmus.gateway.frames.messages import ADD_PARTITIONS_TO_TXN, METADATA, NEVER, PRODUCE, is_flexible
from isthmus.gateway.frames.refusing import (
    GROUPED,
    LISTINGS,
    BodyWriter,
    NamedItem,
    NameVerdict,
    read_added_topic,
    tell_added,
)
from isthmus.gateway.frames.reserved import ReservedNames
from isthmus.kafka import codes
from isthmus.model.links.reservation import CLOSED
from isthmus.model.namespace import NamespaceKind

_SIZE: Final = struct.Struct(">i")
_NO_ACKS: Final = 0
_NOT_ATTEMPTED: Final = 55
_FLAG_FROM: Final = 4
_IDS_FROM: Final = 10
_ID_BYTES: Final = 16
_REFUSED: Final[Mapping[NamespaceKind, int]] = {
    "topic": codes.TOPIC_AUTHORIZATION_FAILED,
    "group": codes.GROUP_AUTHORIZATION_FAILED,
}
_REFUSAL_MESSAGE: Final = "It is reserved: only the link that it follows by writes there."
_UNSURE: Final = "It is reserved, and the gateway has not heard for a while whether it still is."


CONCERNED: Final = frozenset(
    {
        *(key for key, each in LISTINGS.items() if each.operation in CLOSED[each.kind]),
        *(key for key, each in GROUPED.items() if each.operation in CLOSED["group"]),
        *((ADD_PARTITIONS_TO_TXN,) if "WRITE" in CLOSED["topic"] else ()),
        *((METADATA,) if "CREATE" in CLOSED["topic"] else ()),
    }
)
"""Messages that may do what is denied for reserved names."""


def ruling(key: int, version: int, frame: memoryview, reserved: ReservedNames, now: float) -> Ruling | None:
    """Rule on a request that is one of `CONCERNED`, by the part of its frame that is there; `None` if it passes.

    :raises Short: More of the frame is needed.
    :raises ValueError: It is no such request, or one that cannot be refused by an answer.
    """
    body = request_body(frame[_SIZE.size :], flexible=is_flexible(key, version))
    if key == METADATA:
        return _rule_metadata(version, frame, body, reserved)
    if key == ADD_PARTITIONS_TO_TXN:
        return _rule_add_partitions(version, frame, body, reserved, now)
    if key in GROUPED:
        return _rule_group_request(key, version, frame, body, reserved, now)
    return _rule_listing(key, version, frame, body, reserved, now)


def _verdict(kind: NamespaceKind, reserved: ReservedNames, unsure: int, now: float) -> NameVerdict:
    return NameVerdict(_REFUSED[kind], _REFUSAL_MESSAGE) if reserved.is_sure(now) else NameVerdict(unsure, _UNSURE)


def _rule_listing(
    key: int, version: int, frame: memoryview, body: MessageCursor, reserved: ReservedNames, now: float
) -> Ruling | None:
    shape, acks = LISTINGS[key], None
    if key == PRODUCE:
        if version >= 3:
            body.skip_text()
        acks = body.int16()
        body.skip(4)
    count_at, count, begin = body.at, body.count(), body.at
    if count == 1 and key == PRODUCE:
        # Most writes have one topic: they pass without being gathered.
        if not reserved.holds(shape.kind, body.text()):
            return None
        body.at = begin
    items = items_of(body, count, shape.read)
    refused = [each for each in items if reserved.holds(shape.kind, each.name)]
    if not refused:
        return None
    verdict = _verdict(shape.kind, reserved, shape.unsure, now)
    refusals = BodyWriter(version, flexible=body.flexible)
    for each in refused:
        shape.write(refusals, each, verdict)
    passing = count - len(refused)
    if not passing and acks != _NO_ACKS:
        out = BodyWriter(version, flexible=body.flexible)
        out.since(shape.throttled_from, "4x").count(count)
        out.add(refusals.found)
        out.since(1 if key == PRODUCE else NEVER, "4x").tags()
        return Ruling(answer=build_answer(frame, out))
    edits = [Edit(count_at, begin, written_count(passing, flexible=body.flexible))]
    edits += [Edit(each.begin, each.end, b"") for each in refused]
    at = 4 if version >= shape.throttled_from else 0
    return Ruling(
        forwarded=edit_request(frame, edits) if passing else b"",
        insertion=Insertion(at, len(refused), bytes(refusals.found)) if acks != _NO_ACKS else None,
        ends_connection=acks == _NO_ACKS,
    )


def _rule_group_request(
    key: int, version: int, frame: memoryview, body: MessageCursor, reserved: ReservedNames, now: float
) -> Ruling | None:
    shape, begin = GROUPED[key], body.at
    if not reserved.holds("group", shape.group(body)):
        return None
    body.at = begin
    out = BodyWriter(version, flexible=body.flexible)
    shape.write(out, body, _verdict("group", reserved, codes.COORDINATOR_NOT_AVAILABLE, now))
    return Ruling(answer=build_answer(frame, out))


def _rule_add_partitions(
    version: int, frame: memoryview, body: MessageCursor, reserved: ReservedNames, now: float
) -> Ruling | None:
    """Rule on AddPartitionsToTxn: brokers add all topics or none, and answer OPERATION_NOT_ATTEMPTED for the others."""
    body.skip_text()
    body.skip(10)
    items = items_of(body, body.count(), read_added_topic)
    if not any(reserved.holds("topic", each.name) for each in items):
        return None
    verdict = _verdict("topic", reserved, codes.CONCURRENT_TRANSACTIONS, now)
    out = BodyWriter(version, flexible=body.flexible)
    tell_added(
        out,
        [(each, verdict.code if reserved.holds("topic", each.name) else _NOT_ATTEMPTED) for each in items],
    )
    return Ruling(answer=build_answer(frame, out))


def _rule_metadata(version: int, frame: memoryview, body: MessageCursor, reserved: ReservedNames) -> Ruling | None:
    """Rule on Metadata, which creates the topics that it names (`auto.create.topics.enable`) unless it disables that.
    A request with reserved topics is split: one for the others first, so that they are created, whose answer is
    dropped; and then one for all of them, without creating any.
    """
    count_at, count, begin = body.at, body.count(), body.at
    items = items_of(body, count, partial(_read_metadata_topic, with_ids=version >= _IDS_FROM))
    found = [each for each in items if reserved.holds("topic", each.name)]
    if not found:
        return None
    if version < _FLAG_FROM:
        raise ValueError(
            f"in version {version} it may create a topic that is reserved: a client of Kafka 0.11 or newer is needed"
        )
    flag_at = body.at
    if not body.int8():
        return None
    edits = [Edit(count_at, begin, written_count(count - len(found), flexible=body.flexible))]
    edits += [Edit(each.begin, each.end, b"") for each in found]
    return Ruling(
        before=edit_request(frame, edits) if len(found) < count else b"",
        forwarded=edit_request(frame, [Edit(flag_at, flag_at + 1, b"\0")]),
    )


def _read_metadata_topic(body: MessageCursor, *, with_ids: bool) -> NamedItem:
    body.skip(_ID_BYTES if with_ids else 0)
    name = body.text()
    body.skip_tags()
    return NamedItem(name)
