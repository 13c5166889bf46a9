"""Map brokers to ports or names: the same way on every gateway with the same settings. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Self

from isthmus.errors import ConfigError, PlanRefused
from isthmus.model.process.listening import ListenAddress
from isthmus.model.text.wording import format_count

_PORT_MAX = 65535
_ID = "{id}"
_HOST_PART = re.compile(r"[A-Za-z0-9-]*(\.[A-Za-z0-9-]+)*\.?[A-Za-z0-9-]*")


@dataclass(frozen=True, slots=True)
class ListenRange:
    """A host, and the ports there to listen at, from `first` to `last`."""

    host: str
    first: int
    last: int

    @classmethod
    def parse(cls, written: str) -> Self:
        """Parse `host:first-last`, or `host:port` for a single port.

        :raises ConfigError: It is neither.
        """
        start, dash, last = written.rpartition("-")
        if not dash or not last.isascii() or not last.isdigit():
            start, last = written, ""
        try:
            address = ListenAddress.parse(start)
        except ValueError:
            raise ConfigError(
                f"{written} must be host:first-last, for example 0.0.0.0:19092-19099",
                hint="One port for each broker, those that may come later included.",
            ) from None
        found = cls(address.host, address.port, int(last) if last else address.port)
        if not found.first <= found.last <= _PORT_MAX:
            raise ConfigError(f"{written}: the range ends before it begins, or beyond {_PORT_MAX}")
        return found

    @property
    def size(self) -> int:
        """The number of ports."""
        return self.last - self.first + 1

    def __str__(self) -> str:
        first = ListenAddress(self.host, self.first)
        return str(first) if self.first == self.last else f"{first}-{self.last}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerPorts:
    """The ports of brokers: clients reach broker `first_node` at `port` of `host`, the next id at the next port."""

    host: str
    port: int
    first_node: int
    size: int

    @property
    def last_node(self) -> int:
        """The highest id that has a port."""
        return self.first_node + self.size - 1

    def node_at(self, index: int, _: str = "") -> int | None:
        """Return the broker id of the n-th port of the range, from 0."""
        return self.first_node + index

    def begun_at(self, first_node: int) -> Self:
        """Return the same ports for brokers from another id on."""
        return replace(self, first_node=first_node)

    def has(self, node_id: int) -> bool:
        """Whether there is a port for this broker."""
        return self.first_node <= node_id <= self.last_node

    def of(self, node_id: int) -> tuple[str, int]:
        """Return the address of a broker. One without a port gets the first: the broker there names the others."""
        return self.host, self.port + (node_id - self.first_node if self.has(node_id) else 0)

    def __str__(self) -> str:
        return f"brokers {self.first_node} to {self.last_node}"


@dataclass(frozen=True, slots=True)
class BrokerNames:
    """The names of brokers, all at one port: `broker-{id}.east.example:19092`. Over TLS clients send the name they
    connect to (SNI, RFC 6066).
    """

    prefix: str
    suffix: str
    port: int

    @classmethod
    def parse(cls, written: str) -> Self:
        """Parse a host name with `{id}` in it once, and a port.

        :raises ConfigError: It is something else.
        """
        before, _, behind = written.partition(_ID)
        suffix, colon, port = behind.rpartition(":")
        is_port = port.isascii() and port.isdigit() and 0 < int(port) <= _PORT_MAX
        if not colon or not is_port or _HOST_PART.fullmatch(before + suffix) is None or before[-1:].isdigit():
            raise ConfigError(
                f"{written} must be a host name with {_ID} in it once and a port",
                hint=f"For example broker-{_ID}.east.example:19092, no digit before {_ID}.",
            )
        return cls(before.lower(), suffix.lower(), int(port))

    def node_at(self, _: int, name: str) -> int | None:
        """Return the broker id of a name; `None` for any other name, or none, as in a first connection."""
        name = name.lower().removesuffix(".")
        middle = name[len(self.prefix) : len(name) - len(self.suffix)]
        is_id = middle.isascii() and middle.isdigit() and str(int(middle)) == middle
        return int(middle) if is_id and name == f"{self.prefix}{middle}{self.suffix}" else None

    def has(self, _: int) -> bool:
        """Whether there is a name for this broker: there is one for each."""
        return True

    def of(self, node_id: int) -> tuple[str, int]:
        """Return the address of a broker."""
        return f"{self.prefix}{node_id}{self.suffix}", self.port

    def begun_at(self, _: int) -> Self:
        """Return the same names: those of another cluster's brokers have their ids as well."""
        return self

    def __str__(self) -> str:
        return f"{self.prefix}{_ID}{self.suffix}:{self.port}"


BrokerPlaces = BrokerPorts | BrokerNames
"""The addresses by which clients reach the brokers."""


def place_brokers(
    listen: ListenRange, advertise: ListenAddress, node_ids: Collection[int], *, first_node: int | None = None
) -> BrokerPorts:
    """Place brokers with these ids, of which there is at least one, on ports. The first port is that of `first_node`,
    or else of the lowest id.

    :raises PlanRefused: The range has too few ports for the ids.
    :raises ConfigError: The range goes beyond the last port of the advertised host.
    """
    if advertise.port + listen.size - 1 > _PORT_MAX:
        raise ConfigError(f"{listen.size} ports from {advertise} on go beyond {_PORT_MAX}")
    lowest, highest = min(node_ids), max(node_ids)
    places = BrokerPorts(host=advertise.host, port=advertise.port, first_node=lowest, size=listen.size)
    if first_node is not None:
        places = replace(places, first_node=first_node)
    if not (places.has(lowest) and places.has(highest)):
        needed = highest - min(places.first_node, lowest) + 1
        named = f"Give --first-node {lowest} or a lower one, and" if places.first_node > lowest else "Give"
        raise PlanRefused(
            f"the ports {listen.first} to {listen.last} are those of brokers {places.first_node} to "
            f"{places.last_node}, and the cluster has ids from {lowest} to {highest}",
            hint=f"{named} --listen a range of {format_count(needed, 'port')} or more, from the lowest id on: a port "
            "belongs to each id between them.",
        )
    return places
