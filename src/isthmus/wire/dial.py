"""Opening a connection: TCP, TLS, ApiVersions and SASL, blocking, made to run in a thread.

A handshake takes several round trips and a frozen broker still completes TCP connects, so the event loop must not wait
for one. What comes out is a connected socket and what the broker offers.
"""

from __future__ import annotations

import socket
import ssl
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from kafka.protocol.metadata import ApiVersionsRequest
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from isthmus import __version__
from isthmus.errors import AuthenticationFailed, ClusterError, Unreachable
from isthmus.model.cluster import Cluster
from isthmus.wire import codes
from isthmus.wire.frames import decode_response, encode_request
from isthmus.wire.security import sasl_mechanism, tls_context, uses_sasl, uses_tls

DIAL_TIMEOUT_S: Final = 5.0
_TCP_USER_TIMEOUT_MS: Final = 30_000
_SIZE: Final = struct.Struct(">i")
_HANDSHAKE_BYTES_MAX: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Dialled:
    """A connected, authenticated, non-blocking socket. `session_life_s` is set where the broker limits it (KIP-368)."""

    sock: socket.socket
    api_versions: Mapping[int, tuple[int, int]]
    session_life_s: float | None


def dial(cluster: Cluster, host: str, port: int, client_id: str, timeout_s: float = DIAL_TIMEOUT_S) -> Dialled:
    """Connect to one broker.

    :raises Unreachable: No answer in `timeout_s`, or the connection broke.
    :raises AuthenticationFailed: TLS or SASL refused us.
    :raises ConfigError: The credentials cannot be used.
    """
    where = f"{cluster.alias} at {host}:{port}"
    context = tls_context(cluster.security) if uses_tls(cluster.security) else None
    try:
        sock = socket.create_connection((host, port), timeout=timeout_s)
    except OSError as error:
        raise Unreachable(
            f"{where} does not answer: {error}",
            cluster=cluster.alias,
            hint="Check that the brokers run and that bootstrap_servers and the advertised listeners are reachable.",
        ) from error
    try:
        _set_options(sock, cluster, where)
        if context is not None:
            sock = context.wrap_socket(sock, server_hostname=host)
        return _greet(sock, cluster, host, client_id, where, time.monotonic() + timeout_s)
    except ClusterError:
        sock.close()
        raise
    except ssl.SSLError as error:
        sock.close()
        raise AuthenticationFailed(
            f"{where} refused TLS: {error.reason or error}",
            cluster=cluster.alias,
            hint="Check security.tls.ca_file, the host name in the broker's certificate, and that the port speaks TLS.",
        ) from error
    except OSError as error:
        sock.close()
        raise Unreachable(
            f"{where} broke the connection off: {error}",
            cluster=cluster.alias,
            hint="Check that the port speaks the configured security.protocol.",
        ) from error
    except BaseException:
        sock.close()
        raise


def _set_options(sock: socket.socket, cluster: Cluster, where: str) -> None:
    if sock.getsockname() == sock.getpeername():
        # Loopback can connect a socket to itself when the port is an ephemeral one nobody listens on.
        raise Unreachable(f"{where} does not answer: the port connects to itself", cluster=cluster.alias)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _TCP_USER_TIMEOUT_MS)


def _greet(sock: socket.socket, cluster: Cluster, host: str, client_id: str, where: str, deadline: float) -> Dialled:
    exchange = _Exchange(sock, client_id, deadline)
    api_versions = _api_versions(exchange)
    life_s = _authenticate(exchange, cluster, host, where) if uses_sasl(cluster.security) else None
    sock.setblocking(False)
    return Dialled(sock, api_versions, life_s)


def _api_versions(exchange: _Exchange) -> Mapping[int, tuple[int, int]]:
    request = ApiVersionsRequest(client_software_name="isthmus", client_software_version=__version__)
    answer = exchange(request, 3)
    if answer.error_code == codes.UNSUPPORTED_VERSION:
        answer = exchange(ApiVersionsRequest(), 0)
    return {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}


def _authenticate(exchange: _Exchange, cluster: Cluster, host: str, where: str) -> float | None:
    security = cluster.security
    mechanism = sasl_mechanism(security, host)
    answer = exchange(SaslHandshakeRequest(mechanism=security.mechanism), 1)
    if answer.error_code != codes.NONE:
        raise AuthenticationFailed(
            f"{where} does not offer {security.mechanism}",
            cluster=cluster.alias,
            hint=f"The broker offers {', '.join(answer.mechanisms) or 'no mechanism'} on this listener.",
        )
    who = f" for user {security.username}" if security.username else ""
    answer = None
    while not mechanism.is_done():
        answer = exchange(SaslAuthenticateRequest(auth_bytes=mechanism.auth_bytes()), 1)
        if answer.error_code == codes.NONE:
            try:
                mechanism.receive(answer.auth_bytes)
            except ValueError as error:
                answer.error_message = str(error)
            else:
                continue
        raise AuthenticationFailed(
            f"{where} refused the login{who}: {answer.error_message or codes.name_of(answer.error_code)}",
            cluster=cluster.alias,
            hint="Check security.username, security.password and security.mechanism of this cluster.",
        )
    life_ms = getattr(answer, "session_lifetime_ms", 0) or 0
    return life_ms / 1000 if life_ms > 0 else None


class _Exchange:
    """Send one request and wait for its answer on a blocking socket."""

    def __init__(self, sock: socket.socket, client_id: str, deadline: float) -> None:
        self._sock = sock
        self._client_id = client_id
        self._deadline = deadline
        self._correlation = 0

    def __call__(self, request: Any, version: int) -> Any:
        self._correlation += 1
        # A socket timeout bounds one call, not the whole answer: a trickling peer must not hold us for ever.
        self._arm()
        self._sock.sendall(encode_request(request, version, self._correlation, self._client_id))
        (size,) = _SIZE.unpack(self._read(_SIZE.size))
        if not 0 < size <= _HANDSHAKE_BYTES_MAX:
            raise OSError(f"the answer claims {size} bytes: this is no Kafka listener, or it expects TLS")
        return decode_response(request, version, memoryview(self._read(size)), self._correlation)

    def _arm(self) -> None:
        left_s = self._deadline - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("timed out")
        self._sock.settimeout(left_s)

    def _read(self, size: int) -> bytearray:
        data = bytearray(size)
        view = memoryview(data)
        while view:
            self._arm()
            n = self._sock.recv_into(view)
            if n == 0:
                raise ConnectionResetError("closed by the broker")
            view = view[n:]
        return data
