"""Loopback ports: free ones that stay free, and their assignment to brokers."""

from __future__ import annotations

import random
import socket
from collections.abc import Collection
from typing import Final

from isthmus.errors import ConfigError, HostError, PortBusy
from isthmus.local.layout import HOST, Ports
from isthmus.model.text.wording import format_count

# From 32768 on the kernel hands ports out to outgoing connections: a listener there can find its
# port taken.
_FREE_BEGIN: Final = 10_000
_FREE_END: Final = 32_768
_TRIES: Final = 1_000
_PORT_MAX: Final = 65_535
# The distance of other listeners above the port of the first broker's clients.
_MUTUAL_TLS, _ADMIN, _CONTROLLER = 10, 20, 50


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
    """`count` different free ports, chosen at random so that two callers rarely meet.

    :raises HostError: There are not as many.
    """
    chosen: dict[int, None] = {}
    for _ in range(_TRIES):
        port = random.randrange(_FREE_BEGIN, _FREE_END)
        if port not in chosen and is_free(port):
            chosen[port] = None
        if len(chosen) == count:
            return tuple(chosen)
    raise HostError(
        f"{format_count(count, 'free port')} could not be found between {_FREE_BEGIN} and {_FREE_END}",
        hint="End servers that are not needed any more.",
    )


def choose_ports(brokers: int, base_port: int | None, secure: bool, mutual_tls: bool) -> tuple[Ports, ...]:
    """The ports of all brokers: clients' from `base_port` upwards, or free ones without it.

    :raises ConfigError: There are no such ports.
    """
    if base_port is not None:
        highest = _PORT_MAX - _CONTROLLER - brokers + 1
        if not 1 <= base_port <= highest:
            raise ConfigError(
                f"{base_port} cannot be the port of the first of {brokers} brokers",
                field="base_port",
                hint=f"Choose one from 1024 to {highest}: other listeners lie up to {_CONTROLLER} above the brokers'.",
            )
        return tuple(_above(base_port + node, secure, mutual_tls) for node in range(brokers))
    listeners = 2 + secure + mutual_tls
    free = iter(free_ports(brokers * listeners))
    return tuple(
        Ports(
            plaintext=next(free),
            controller=next(free),
            sasl_ssl=next(free) if secure else 0,
            ssl=next(free) if mutual_tls else 0,
        )
        for _ in range(brokers)
    )


def _above(port: int, secure: bool, mutual_tls: bool) -> Ports:
    return Ports(
        plaintext=port + _ADMIN if secure else port,
        controller=port + _CONTROLLER,
        sasl_ssl=port if secure else 0,
        ssl=port + _MUTUAL_TLS if mutual_tls else 0,
    )


def require_free(ports: Collection[int], cluster: str) -> None:
    """Refuse ports that something listens on.

    :raises PortBusy: At least one of `ports` is taken.
    """
    taken = [str(port) for port in ports if not is_free(port)]
    if taken:
        raise PortBusy(
            f"{cluster} needs port {' and '.join(taken)} of {HOST}, but something listens there",
            hint=f"End it (`ss -ltnp 'sport = :{taken[0]}'` names it) or choose other ports with --base-port.",
        )
