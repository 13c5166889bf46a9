"""Opens TCP connections to brokers, directly or through the configured proxy."""

from __future__ import annotations

import socket

from isthmus.kafka.connect import proxy
from isthmus.kafka.connect.address import reached_at
from isthmus.model.cluster import Cluster


def reach(cluster: Cluster, host: str, port: int, timeout_s: float) -> socket.socket:
    """Open a blocking connection to the broker that advertises `host:port`.

    :raises OSError: The connection failed.
    :raises Unreachable: The proxy does not answer, or cannot connect.
    :raises AuthenticationFailed: The proxy refuses our login.
    """
    address = reached_at(cluster, host, port)
    if cluster.proxy is None:
        return socket.create_connection(address, timeout=timeout_s)
    return proxy.connect(cluster, cluster.proxy, *address, timeout_s)
