"""Free loopback ports that stay free."""

from __future__ import annotations

import random
import socket
from collections.abc import Collection
from typing import Final

from isthmus.cluster.local.layout import HOST
from isthmus.errors import HostError, PortBusy

# From 32768 on the kernel hands ports out to outgoing connections: a listener there can find its
# port taken.
_FREE_BEGIN: Final = 10_000
_FREE_END: Final = 32_768
_TRIES: Final = 1_000


def is_free(port: int) -> bool:
    """Whether a server could listen on this loopback port now."""
    with socket.socket() as probe:
        # As the brokers do: connections that a former server left in TIME_WAIT do not matter.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def free_ports(count: int) -> tuple[int, ...]:
    """`count` different free ports below the kernel's own range, chosen at random so that two
    callers rarely meet.
    """
    chosen: dict[int, None] = {}
    for _ in range(_TRIES):
        port = random.randrange(_FREE_BEGIN, _FREE_END)
        if port not in chosen and is_free(port):
            chosen[port] = None
        if len(chosen) == count:
            return tuple(chosen)
    raise HostError(
        f"no {count} free ports were found between {_FREE_BEGIN} and {_FREE_END}",
        hint="End servers that are not needed any more.",
    )


def require_free(ports: Collection[int], cluster: str) -> None:
    """Refuse ports that something listens on.

    :raises PortBusy: At least one of `ports` is taken.
    """
    taken = [str(port) for port in ports if not is_free(port)]
    if taken:
        raise PortBusy(
            f"{cluster} needs port {' and '.join(taken)} of {HOST} but something listens there",
            hint=f"End it (`ss -ltnp 'sport = :{taken[0]}'` names it) or choose other ports with --base-port.",
        )
