"""Requests and answers on a blocking socket: what a connection begins with, before an event loop has it."""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping
from typing import Any, Final

from kafka.protocol.metadata import MetadataRequest

from isthmus import __version__
from isthmus.deadline import Deadline
from isthmus.wire import codes
from isthmus.wire.frames import decode_response, encode_request
from isthmus.wire.messages import ApiVersionsRequest

_SIZE: Final = struct.Struct(">i")
_ANSWER_BYTES_MAX: Final = 1 << 20
_IDENTITY_FROM: Final = 5
_METADATA_VERSIONS: Final = (4, 9)
_SOFTWARE: Final = {"client_software_name": "isthmus", "client_software_version": __version__}
_TLS_RECORDS: Final = (b"\x15\x03", b"\x16\x03")
"""How an alert and a handshake begin (RFC 8446, 5.1)."""


_NOT_OFFERED: Final = (0, 0)


class SpeaksTls(OSError):
    """What came is a record of TLS."""


class NotKafka(OSError):
    """What came is no answer of a Kafka broker."""


def bound(sock: socket.socket, deadline: Deadline) -> None:
    """Have the next call on a blocking socket end by the deadline.

    :raises TimeoutError: It has passed.
    """
    left_s = deadline.left_s
    # A socket without time to wait would not wait at all, and say something else.
    if left_s <= 0:
        raise TimeoutError("timed out")
    sock.settimeout(left_s)


class Exchange:
    """Send one request and wait for its answer on a blocking socket, at most until the deadline.

    :raises SpeaksTls: The answer is one of TLS.
    :raises NotKafka: The answer is one of something else.
    :raises OSError: No answer came.
    """

    def __init__(self, sock: socket.socket, client_id: str, deadline: Deadline) -> None:
        self._sock = sock
        self._client_id = client_id
        self._deadline = deadline
        self._correlation = 0

    def __call__(self, request: Any, version: int) -> Any:
        self._correlation += 1
        # A socket timeout bounds one call, not the whole answer: a trickling peer must not hold us for ever.
        bound(self._sock, self._deadline)
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
            bound(self._sock, self._deadline)
            n = self._sock.recv_into(view)
            if n == 0:
                raise ConnectionResetError("closed by the broker")
            view = view[n:]
        return data


def api_versions(exchange: Exchange) -> Mapping[int, tuple[int, int]]:
    """The lowest and highest version of every message the broker offers, by API key.

    :raises OSError: See `Exchange`.
    """
    answer = exchange(ApiVersionsRequest(**_SOFTWARE), 3)
    if answer.error_code == codes.UNSUPPORTED_VERSION:
        answer = exchange(ApiVersionsRequest(), 0)
    return {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}


def answering_cluster(
    exchange: Exchange, offered: Mapping[int, tuple[int, int]], *, cluster_id: str, node_id: int
) -> str | None:
    """The id of the cluster that answers, where it is not the one that is meant; `None` where it is.

    Brokers from Kafka 4.4 on compare it themselves, together with a `node_id` (KIP-1242): one of another number that
    has this address now is not the one that is meant either. All others, and all where any broker will do (`node_id`
    below 0), tell the id of their cluster (Metadata).

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
