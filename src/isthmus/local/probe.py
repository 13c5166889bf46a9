"""One question to one broker, over its loopback PLAINTEXT listener."""

from __future__ import annotations

import socket
import struct
from typing import Any, Final

from kafka.protocol.metadata import MetadataRequest

from isthmus.errors import ClusterError, Unreachable
from isthmus.kafka.connect.dial import dial
from isthmus.kafka.connect.frames import decode_response, encode_request, pick_version
from isthmus.local.layout import HOST
from isthmus.model.cluster import Cluster

_CLIENT_ID: Final = "isthmus-local"
_CORRELATION: Final = 1
_SIZE: Final = struct.Struct(">i")


def ask(port: int, request: Any, *, cluster: str, timeout_s: float = 30.0) -> Any:
    """The answer of the broker on `port` to a kafka-python request.

    Blocking, without an event loop, since clusters are started from anywhere, also from inside one.

    :raises Unreachable: No answer in `timeout_s`.
    :raises UnsupportedByBroker: The broker does not know the message.
    """
    to = Cluster(alias=cluster, bootstrap_servers=(f"{HOST}:{port}",))
    dialled = dial(to, HOST, port, _CLIENT_ID, timeout_s)
    with dialled.sock as sock:
        version = pick_version(request, dialled.api_versions, cluster)
        sock.settimeout(timeout_s)
        try:
            sock.sendall(encode_request(request, version, _CORRELATION, _CLIENT_ID))
            (size,) = _SIZE.unpack(_receive(sock, _SIZE.size))
            answer = _receive(sock, size)
        except OSError as error:
            raise Unreachable(f"{cluster} at {HOST}:{port} broke off: {error}", cluster=cluster) from error
    return decode_response(request, version, memoryview(answer), _CORRELATION)


def knows(port: int, node_id: int, *, cluster: str) -> int:
    """Return how many brokers the one on `port` knows as alive; 0 if it does not answer or is not among them.

    Metadata leaves fenced brokers out, so a broker that lists itself serves clients.
    """
    try:
        answer = ask(port, MetadataRequest(topics=[]), cluster=cluster, timeout_s=2.0)
    except ClusterError:
        return 0
    alive = {broker.node_id for broker in answer.brokers}
    return len(alive) if node_id in alive else 0


def _receive(sock: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = sock.recv(size - len(parts))
        if not part:
            raise ConnectionResetError("closed by the broker")
        parts += part
    return bytes(parts)
