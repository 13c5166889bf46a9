"""Addresses of brokers: as text, as host and port, and as reached from here."""

from __future__ import annotations

from isthmus.errors import ConfigError
from isthmus.model.cluster import Cluster


def split_address(server: str, alias: str) -> tuple[str, int]:
    """Split `host:port` or `[v6]:port` into host and port.

    :raises ConfigError: The text is neither.
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
    """Format `host:port`, or `[v6]:port`."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def reached_at(cluster: Cluster, host: str, port: int) -> tuple[str, int]:
    """The host and port to connect to for the broker that advertises `host:port`."""
    known = written_address(host, port).lower()
    for advertised, address in cluster.addresses:
        if advertised.lower() == known:
            return split_address(address, cluster.alias)
    return host, port


def whereabouts(cluster: Cluster, host: str, port: int) -> str:
    """A phrase that names the broker: its cluster, its advertised address, and the way to it if different."""
    way = ""
    if (reached := reached_at(cluster, host, port)) != (host, port):
        way = f"reached at {written_address(*reached)}"
    if cluster.proxy is not None:
        way = f"{way} through the proxy {cluster.proxy}".strip()
    return f"{cluster.alias} at {host}:{port}" + (f" ({way})" if way else "")
