"""Addresses of brokers: as text and as host and port, and where a broker is reached."""

from __future__ import annotations

from isthmus.errors import ConfigError
from isthmus.model.cluster import Cluster


def split_address(server: str, alias: str) -> tuple[str, int]:
    """`host:port` or `[v6]:port` as host and port.

    :raises ConfigError: It is neither.
    """
    host, colon, port = server.rpartition(":")
    if not colon or not port.isdigit() or not host:
        raise ConfigError(
            f"{server!r} is no address of a broker",
            field=f"clusters.{alias}.bootstrap_servers",
            hint="Write host:port, several separated by commas.",
        )
    return host.removeprefix("[").removesuffix("]"), int(port)


def written_address(host: str, port: int) -> str:
    """`host:port`, or `[v6]:port`."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def reached_at(cluster: Cluster, host: str, port: int) -> tuple[str, int]:
    """Where to connect to for the broker that is known as `host:port`."""
    known = written_address(host, port).lower()
    for advertised, address in cluster.addresses:
        if advertised.lower() == known:
            return split_address(address, cluster.alias)
    return host, port


def whereabouts(cluster: Cluster, host: str, port: int) -> str:
    """The broker for a sentence: its cluster, how it is known, and the way to it where that is another."""
    way = ""
    if (reached := reached_at(cluster, host, port)) != (host, port):
        way = f"reached at {written_address(*reached)}"
    if cluster.proxy is not None:
        way = f"{way} through the proxy {cluster.proxy}".strip()
    return f"{cluster.alias} at {host}:{port}" + (f" ({way})" if way else "")
