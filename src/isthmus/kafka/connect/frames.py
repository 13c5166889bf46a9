"""Converts Kafka messages to bytes and back with kafka-python's codecs. Only this module calls them."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

from kafka.protocol.api_header import ResponseClassRegistry

from isthmus.errors import UnsupportedByBroker
from isthmus.kafka.messages import ApiVersionsRequest, ApiVersionsResponse

_API_VERSIONS_KEY = 18
_CORRELATION = struct.Struct(">i")
_SHIFT_MAX = 28


Buffer = bytes | bytearray | memoryview


class Frame(NamedTuple):
    """A request as it is sent, beginning with its length; `size_bytes` is the size of all buffers together."""

    buffers: list[Buffer]
    size_bytes: int


def pick_version(request: Any, api_versions: Mapping[int, tuple[int, int]], cluster: str) -> int:
    """Choose the highest version of a message that both sides know, within the request's `min_version`/`max_version`.

    :raises UnsupportedByBroker: There is none.
    """
    ours_min = max(request.min_version, request._min_version or 0)
    ours_max = request.max_version if request._max_version is None else min(request.max_version, request._max_version)
    theirs = api_versions.get(request.API_KEY)
    if theirs is None or theirs[1] < ours_min or theirs[0] > ours_max:
        offered = "it is not offered" if theirs is None else f"versions {theirs[0]} to {theirs[1]} are offered"
        raise UnsupportedByBroker(
            f"{cluster} does not support {request.name} in versions {ours_min} to {ours_max}: {offered}",
            cluster=cluster,
            hint="Isthmus works with Kafka 2.8 to 4.4; upgrade the brokers or leave this feature out.",
        )
    return int(min(ours_max, theirs[1]))


def encode_request(request: Any, version: int, correlation: int, client_id: str) -> bytes:
    """Encode a request as one frame: length, header and body."""
    request.API_VERSION = version
    request.with_header(correlation_id=correlation, client_id=client_id)
    encoded = request.encode(version=version, header=True, framed=True)
    return bytes(encoded)


def decode_response(request: Any, version: int, payload: memoryview, correlation: int) -> Any:
    """Decode the answer to `request` from a frame's payload (without its length).

    :raises ConnectionError: When the correlation id is not the one expected: the stream is out of step.
    """
    is_ours = isinstance(request, ApiVersionsRequest)
    response_class = ApiVersionsResponse if is_ours else ResponseClassRegistry.get_response_class(request.header)
    position = skip_response_header(payload, correlation, flexible=_flexible(request, version))
    return response_class.decode(payload[position:], version=version)


def skip_response_header(payload: memoryview, correlation: int, *, flexible: bool) -> int:
    """Check the correlation id and return where the body begins.

    :raises ConnectionError: When the correlation id is not the one expected.
    """
    (answered,) = _CORRELATION.unpack_from(payload, 0)
    if answered != correlation:
        raise ConnectionError(f"the broker answered request {answered} where {correlation} was next")
    if not flexible:
        return _CORRELATION.size
    position = _CORRELATION.size
    tags, position = uvarint(payload, position)
    for _ in range(tags):
        _, position = uvarint(payload, position)
        size, position = uvarint(payload, position)
        position += size
    return position


def _flexible(request: Any, version: int) -> bool:
    # KIP-511: the answer to ApiVersions always has the oldest header, so that every client can decode it.
    return request.API_KEY != _API_VERSIONS_KEY and bool(type(request).flexible_version_q(version))


def uvarint(data: memoryview, position: int) -> tuple[int, int]:
    """Decode the unsigned varint at `position` (KIP-482). Return it and the position behind it.

    :raises IndexError: The data ends within it.
    :raises ValueError: It has more than 32 bits.
    """
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > _SHIFT_MAX:
            raise ValueError("a number of more than 32 bits")
