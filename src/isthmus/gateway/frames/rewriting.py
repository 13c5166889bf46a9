"""Edits of answers: the addresses of brokers, and the offered versions. Pure."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from isthmus.gateway.frames.acknowledging import skip_errors
from isthmus.gateway.frames.layout import (
    Edit,
    Endpoint,
    MessageCursor,
    response_body,
    written_address,
    written_text,
    written_uvarint,
)
from isthmus.gateway.frames.messages import (
    API_VERSIONS,
    DESCRIBE_CLUSTER,
    FIND_COORDINATOR,
    METADATA,
    PASSING,
    PRODUCE,
    SASL_HANDSHAKE,
    SHARE_ACKNOWLEDGE,
    SHARE_FETCH,
    is_flexible,
)
from isthmus.kafka import codes

LeadTo = Callable[[int, str, int], tuple[str, int]]
"""Maps a broker's id, host and port in an answer to the address by which clients reach it."""
_ITEM: Final = struct.Struct(">hhh")
_COUNT: Final = struct.Struct(">i")
_NODE_ENDPOINTS: Final = 0
_TOPIC_ID_BYTES: Final = 16
_LEADER_BYTES: Final = 8


def _edit_metadata(body: MessageCursor, version: int, move: LeadTo) -> Iterator[Edit]:
    if version >= 3:
        body.skip(4)
    for _ in range(body.count()):
        yield from _edit_address(body, move)
        if version >= 1:
            body.skip_text()
        body.skip_tags()


def _edit_find_coordinator(body: MessageCursor, version: int, move: LeadTo) -> Iterator[Edit]:
    if version >= 1:
        body.skip(4)
    if version < 4:
        body.skip(2)
        if version >= 1:
            body.skip_text()
        yield from _edit_address(body, move)
        return
    for _ in range(body.count()):
        body.skip_text()
        yield from _edit_address(body, move)
        body.skip(2)
        body.skip_text()
        body.skip_tags()


def _edit_describe_cluster(body: MessageCursor, version: int, move: LeadTo) -> Iterator[Edit]:
    body.skip(6)
    body.skip_text()
    if version >= 1:
        body.skip(1)
    body.skip_text()
    body.skip(4)
    for _ in range(body.count()):
        yield from _edit_address(body, move)
        body.skip_text()
        if version >= 2:
            body.skip(1)
        body.skip_tags()


def _edit_produce(body: MessageCursor, version: int, move: LeadTo) -> Iterator[Edit]:
    if version < 10:
        return
    for _ in range(body.count()):
        if version >= 13:
            body.skip(_TOPIC_ID_BYTES)
        else:
            body.skip_text()
        for _ in range(body.count()):
            body.skip(30)
            skip_errors(body)
            body.skip_tags()
        body.skip_tags()
    body.skip(4)
    for tag, size_at, end in body.tags():
        if tag == _NODE_ENDPOINTS:
            begin = body.at
            edits = list(_edit_node_endpoints(body, move))
            grown = sum(edit.growth_bytes for edit in edits)
            yield Edit(size_at, begin, written_uvarint(end - begin + grown))
            yield from edits


def _edit_share_fetch(body: MessageCursor, version: int, move: LeadTo) -> Iterator[Edit]:
    body.skip(6)
    body.skip_text()
    if version >= 1:
        body.skip(4)
    _skip_shared(body, brings_records=True)
    yield from _edit_node_endpoints(body, move)


def _edit_share_acknowledge(body: MessageCursor, version: int, move: LeadTo) -> Iterator[Edit]:
    body.skip(6)
    body.skip_text()
    if version >= 2:
        body.skip(4)
    _skip_shared(body, brings_records=False)
    yield from _edit_node_endpoints(body, move)


def _skip_shared(body: MessageCursor, *, brings_records: bool) -> None:
    """Skip the partitions of an answer: their errors, their leaders, and in a ShareFetch the acquired records."""
    for _ in range(body.count()):
        body.skip(_TOPIC_ID_BYTES)
        for _ in range(body.count()):
            body.skip(6)
            body.skip_text()
            if brings_records:
                body.skip(2)
                body.skip_text()
            _skip_leader(body)
            if brings_records:
                body.skip_text()  # the records, which are written as a text is
                for _ in range(body.count()):
                    body.skip(18)
                    body.skip_tags()
            body.skip_tags()
        body.skip_tags()


def _skip_leader(body: MessageCursor) -> None:
    body.skip(_LEADER_BYTES)
    body.skip_tags()


def _edit_node_endpoints(body: MessageCursor, move: LeadTo) -> Iterator[Edit]:
    for _ in range(body.count()):
        yield from _edit_address(body, move)
        body.skip_text()
        body.skip_tags()


def _edit_address(body: MessageCursor, move: LeadTo) -> Iterator[Edit]:
    found: Endpoint = body.endpoint()
    # Without a broker, as no coordinator was found, there is no address.
    if found.node_id >= 0 and found.host:
        host, port = move(found.node_id, found.host, found.port)
        yield Edit(found.begin, found.end, written_address(host, port, flexible=body.flexible))


def _edit_api_versions(body: MessageCursor, version: int, _: LeadTo) -> Iterator[Edit]:
    code = body.int16()
    if code == codes.UNSUPPORTED_VERSION:
        # A broker answers so to any version that it does not support (KIP-511).
        body.flexible = False
    begin = body.at
    offered = [_narrow_offer(body) for _ in range(body.count())]
    kept = [each for each in offered if each]
    head = written_uvarint(len(kept) + 1) if body.flexible else _COUNT.pack(len(kept))
    yield Edit(begin, body.at, head + b"".join(kept))


def _narrow_offer(body: MessageCursor) -> bytes:
    """Return one message of the broker with the versions that clients are offered; empty if there are none."""
    key, lowest, highest = body.int16(), body.int16(), body.int16()
    tags = body.skipped_tags()
    passing = PASSING.get(key)
    if passing is None:
        return b""
    lowest, highest = max(lowest, passing.version_min), min(highest, passing.version_max)
    if lowest > highest:
        return b""
    return _ITEM.pack(key, lowest, highest) + tags


_EDITS: Final[Mapping[int, Callable[[MessageCursor, int, LeadTo], Iterator[Edit]]]] = {
    PRODUCE: _edit_produce,
    METADATA: _edit_metadata,
    FIND_COORDINATOR: _edit_find_coordinator,
    API_VERSIONS: _edit_api_versions,
    DESCRIBE_CLUSTER: _edit_describe_cluster,
    SHARE_FETCH: _edit_share_fetch,
    SHARE_ACKNOWLEDGE: _edit_share_acknowledge,
}
_PLAIN_BELOW: Final = {PRODUCE: 10}


def is_rewritten(key: int, version: int) -> bool:
    """Whether answers to this message are to be rewritten."""
    return key in _EDITS and version >= _PLAIN_BELOW.get(key, 0)


def edits(key: int, version: int, payload: memoryview, move: LeadTo) -> list[Edit]:
    """Return the edits of the payload of an answer, of which only the beginning may be there, in order.

    :raises Short: More of the payload is needed.
    :raises ValueError: It is no such answer.
    """
    flexible = is_flexible(key, version)
    # KIP-511: the header of this one has no tags in any version, so that any broker can be understood.
    body = response_body(payload, flexible=flexible, has_tags=flexible and key != API_VERSIONS)
    return list(_EDITS[key](body, version, move))


def refused_api_versions(correlation: int) -> bytes:
    """Build the answer with the supported versions of ApiVersions itself, as a broker does (KIP-511)."""
    passing = PASSING[API_VERSIONS]
    item = _ITEM.pack(API_VERSIONS, passing.version_min, passing.version_max)
    payload = struct.pack(">ihi", correlation, codes.UNSUPPORTED_VERSION, 1) + item
    return _COUNT.pack(len(payload)) + payload


def refused_login(key: int, version: int, correlation: int) -> bytes:
    """Build the answer to SaslHandshake or SaslAuthenticate of a client with a certificate, which cannot log in as
    well; with the code of a broker for that.
    """
    head = struct.pack(">i", correlation)
    if key == SASL_HANDSHAKE:
        payload = head + struct.pack(">hi", codes.ILLEGAL_SASL_STATE, 0)
    else:
        flexible = is_flexible(key, version)
        payload = head + (b"\0" if flexible else b"") + struct.pack(">h", codes.ILLEGAL_SASL_STATE)
        payload += written_text("its certificate is its login", flexible=flexible)
        payload += b"\x01" if flexible else _COUNT.pack(0)
        payload += (struct.pack(">q", 0) if version >= 1 else b"") + (b"\0" if flexible else b"")
    return _COUNT.pack(len(payload)) + payload
