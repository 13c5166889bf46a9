"""Requests and answers on a blocking socket, for the handshake before an event loop uses the connection."""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping
from typing import Any, Final

from kafka.protocol.metadata import MetadataRequest

from isthmus import __version__
from isthmus.deadline import Deadline
from isthmus.kafka import codes
from isthmus.kafka.connect.frames import decode_response, encode_request
from isthmus.kafka.messages import ApiVersionsRequest

_SIZE: Final = struct.Struct(">i")
_ANSWER_BYTES_MAX: Final = 1 << 20
_IDENTITY_FROM: Final = 5
_METADATA_VERSIONS: Final = (4, 9)
_SOFTWARE: Final = {"client_software_name": "isthmus", "client_software_version": __version__}
_TLS_RECORDS: Final = (b"\x15\x03", b"\x16\x03")
"""The first bytes of an alert and of a handshake (RFC 8446, 5.1)."""


_NOT_OFFERED: Final = (0, 0)


class SpeaksTls(OSError):
    """The answer is a TLS record."""


class NotKafka(OSError):
    """The answer is not one of a Kafka broker."""


def limit(sock: socket.socket, deadline: Deadline) -> None:
    """Limit the next call on a blocking socket to the deadline.

    :raises TimeoutError: The deadline has passed.
    """
    left_s = deadline.left_s
    # A socket timeout of 0 would make it non-blocking, with other errors.
    if left_s <= 0:
        raise TimeoutError("timed out")
    sock.settimeout(left_s)


class Exchange:
    """Sends a request and waits for its answer on a blocking socket, at most until the deadline.

    :raises SpeaksTls: The answer is a TLS record.
    :raises NotKafka: The answer is not one of a Kafka broker.
    :raises OSError: No answer came.
    """

    def __init__(self, sock: socket.socket, client_id: str, deadline: Deadline) -> None:
        self._sock = sock
        self._client_id = client_id
        self._deadline = deadline
        self._correlation = 0

    def __call__(self, request: Any, version: int) -> Any:
        self._correlation += 1
        # A socket timeout limits one call, not the whole answer: a slow peer must not block us for ever.
        limit(self._sock, self._deadline)
        self._sock.sendall(encode_request(request, version, self._correlation, self._client_id))
        head = self._read(_SIZE.size)
        (size,) = _SIZE.unpack(head)
        if not 0 < size <= _ANSWER_BYTES_MAX:
            if head.startswith(_TLS_RECORDS):
                raise SpeaksTls("the answer is one of TLS")
            raise NotKafka(f"an answer of {size} bytes cannot be")
        answer = self._read(size)
        try:
            return decode_response(request, version, memoryview(answer), self._correlation)
        except Exception as error:
            raise NotKafka(f"the answer cannot be read: {error}") from error

    def _read(self, size: int) -> bytearray:
        data = bytearray(size)
        view = memoryview(data)
        while view:
            limit(self._sock, self._deadline)
            n = self._sock.recv_into(view)
            if n == 0:
                raise ConnectionResetError("closed by the broker")
            view = view[n:]
        return data


def api_versions(exchange: Exchange) -> Mapping[int, tuple[int, int]]:
    """Ask for the lowest and highest version of every message that the broker offers, by API key.

    :raises OSError: See `Exchange`.
    """
    answer = exchange(ApiVersionsRequest(**_SOFTWARE), 3)
    if answer.error_code == codes.UNSUPPORTED_VERSION:
        answer = exchange(ApiVersionsRequest(), 0)
    return {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}


def answering_cluster(
    exchange: Exchange, offered: Mapping[int, tuple[int, int]], *, cluster_id: str, node_id: int
) -> str | None:
    """Return the id of the answering cluster if it is not the expected one, else `None`.

    Brokers from Kafka 4.4 on compare the cluster id themselves, together with `node_id` (KIP-1242): another broker that
    has this address now is wrong too. Other brokers, and all if any broker will do (`node_id` below 0), are asked for
    the id of their cluster (Metadata).

    :raises OSError: See `Exchange`; or the broker is another one of the same cluster.
    """
    is_refused = False
    if node_id >= 0 and offered.get(ApiVersionsRequest.API_KEY, _NOT_OFFERED)[1] >= _IDENTITY_FROM:
        request = ApiVersionsRequest(cluster_id=cluster_id, node_id=node_id, **_SOFTWARE)
        is_refused = exchange(request, _IDENTITY_FROM).error_code == codes.REBOOTSTRAP_REQUIRED
        if not is_refused:
            return None
    oldest, newest = _METADATA_VERSIONS
    version = min(newest, offered.get(MetadataRequest.API_KEY, (oldest, oldest))[1])
    found = exchange(MetadataRequest(topics=[], allow_auto_topic_creation=False), version).cluster_id
    if found not in (None, cluster_id):
        return str(found)
    if is_refused:
        raise ConnectionResetError(f"it is no longer the address of broker {node_id}")
    return None
