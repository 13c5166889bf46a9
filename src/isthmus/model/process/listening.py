"""The addresses at which a process listens, and which clients can reach them."""

from __future__ import annotations

import ipaddress
from typing import NamedTuple


class ListenAddress(NamedTuple):
    """A host and a port to listen at."""

    host: str
    port: int

    @classmethod
    def parse(cls, written: str) -> ListenAddress:
        """Parse `host:port`, and `[::1]:port` with IPv6.

        :raises ValueError: It is none.
        """
        host, colon, port = written.rpartition(":")
        is_bracketed = host.startswith("[") and host.endswith("]")
        if not colon or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
            raise ValueError("must be host:port, for example 127.0.0.1:9464")
        if not host or (":" in host and not is_bracketed):
            raise ValueError("must be host:port, for example 127.0.0.1:9464 or [::1]:9464")
        return cls(host[1:-1] if is_bracketed else host, int(port))

    @property
    def is_loopback(self) -> bool:
        """Whether only this host can reach it. A name other than localhost is not looked up."""
        return is_loopback(self.host)

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def is_unspecified(host: str) -> bool:
    """Whether the host stands for all addresses of a machine: a process can listen there, but no client can connect to
    it.
    """
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def is_loopback(host: str) -> bool:
    """Return whether an address, or localhost, is this host and can be reached from nowhere else."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
