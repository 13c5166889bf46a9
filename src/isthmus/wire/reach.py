"""A TCP connection to a broker, by whatever way the configuration says."""

from __future__ import annotations

import socket

from isthmus.model.cluster import Cluster
from isthmus.wire import proxy
from isthmus.wire.address import reached_at


def reach(cluster: Cluster, host: str, port: int, timeout_s: float) -> socket.socket:
    """A blocking connection to the broker that is known as `host:port`.

    :raises OSError: There is none.
    :raises Unreachable: The proxy does not answer, or does not get there.
    :raises AuthenticationFailed: The proxy does not take our login.
    """
    address = reached_at(cluster, host, port)
    if cluster.proxy is None:
        return socket.create_connection(address, timeout=timeout_s)
    return proxy.connect(cluster, cluster.proxy, *address, timeout_s)
