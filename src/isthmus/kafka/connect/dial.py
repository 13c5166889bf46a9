"""Opens a connection: TCP, TLS, ApiVersions and SASL, blocking, to run in a thread.

A handshake takes several round trips and a frozen broker still completes TCP connects, so the event loop must not wait
for one. The result is a connected socket and the versions that the broker offers.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from isthmus.deadline import Deadline
from isthmus.errors import Unreachable
from isthmus.kafka.connect.address import whereabouts
from isthmus.kafka.connect.certificates import tls_context
from isthmus.kafka.connect.credentials import renew_credentials
from isthmus.kafka.connect.diagnosis import another_cluster, build_unreached, misunderstood
from isthmus.kafka.connect.exchange import Exchange, answering_cluster, api_versions
from isthmus.kafka.connect.login import LoggedIn, advance, login_steps
from isthmus.kafka.connect.reach import reach
from isthmus.kafka.connect.security import uses_sasl, uses_tls
from isthmus.kafka.connect.tunnel import wrap_tls
from isthmus.model.cluster import Cluster

_log = logging.getLogger(__name__)
_TCP_USER_TIMEOUT_MS: Final = 30_000


@dataclass(frozen=True, slots=True)
class Dialled:
    """A connected, authenticated, non-blocking socket. `session_life_s` is set if the broker limits it (KIP-368)."""

    sock: socket.socket
    api_versions: Mapping[int, tuple[int, int]]
    session_life_s: float | None


def dial(
    cluster: Cluster, host: str, port: int, client_id: str, timeout_s: float | None = None, *, node_id: int = -1
) -> Dialled:
    """Connect to one broker, with the credentials and certificates that the files hold now. If the cluster id is known,
    a broker of another cluster gets no other request.

    :param node_id: The id of the expected broker, below 0 for any.
    :param timeout_s: For the connect and for the handshake; by default from the cluster's properties.
    :raises Unreachable: No answer in time, the connection broke, or a PEM file cannot be used now.
    :raises AnotherCluster: A broker of another cluster answers.
    :raises AuthenticationFailed: TLS or SASL refused us, or the listener has another protocol than configured.
    :raises ConfigError: The mechanism lacks a setting.
    """
    cluster = renew_credentials(cluster)
    if timeout_s is None:
        timeout_s = cluster.properties.connection_setup_timeout_s
    where = whereabouts(cluster, host, port)
    context = tls_context(cluster) if uses_tls(cluster.security) else None
    try:
        sock = reach(cluster, host, port, timeout_s)
    except OSError as error:
        _log.debug("no connection to %s: %s", where, error)
        raise build_unreached(error, cluster, where) from error
    try:
        _set_options(sock, cluster, where)
        if context is not None:
            sock = wrap_tls(sock, context, host)
        exchange = Exchange(sock, client_id, Deadline(timeout_s))
        dialled = _greet(exchange, sock, cluster, host, node_id, where)
        _log.debug("connected to %s (%s)", where, cluster.security.protocol)
        return dialled
    except OSError as error:
        sock.close()
        raise misunderstood(error, cluster, host, port) from error
    except BaseException:
        sock.close()
        raise


def _set_options(sock: socket.socket, cluster: Cluster, where: str) -> None:
    if sock.getsockname() == sock.getpeername():
        # Loopback can connect a socket to itself if the port is an ephemeral one without a listener.
        raise Unreachable(f"{where} does not answer: the port connects to itself", cluster=cluster.alias)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _TCP_USER_TIMEOUT_MS)
    properties = cluster.properties
    if properties.send_buffer_bytes is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, properties.send_buffer_bytes)
    if properties.receive_buffer_bytes is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, properties.receive_buffer_bytes)


def _greet(exchange: Exchange, sock: socket.socket, cluster: Cluster, host: str, node_id: int, where: str) -> Dialled:
    offered = api_versions(exchange)
    life_s = _authenticate(exchange, cluster, host, where) if uses_sasl(cluster.security) else None
    if cluster.cluster_id:
        meant = cluster.cluster_id
        found = answering_cluster(exchange, offered, cluster_id=meant, node_id=node_id)
        if found is not None:
            raise another_cluster(cluster.alias, where, meant=meant, found=found)
    sock.setblocking(False)
    return Dialled(sock, offered, life_s)


def _authenticate(exchange: Exchange, cluster: Cluster, host: str, where: str) -> float | None:
    steps = login_steps(cluster, host, where)
    step = advance(steps, None)
    while not isinstance(step, LoggedIn):
        step = advance(steps, exchange(*step))
    return step.session_life_s
