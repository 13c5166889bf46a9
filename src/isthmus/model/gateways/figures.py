"""The figures of a gateway: connected clients, bytes passed, and refusals. Pure."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated

from isthmus.model.text.plain import computed_field, tenths

FRESH_S = 10.0
"""A process that has not reported for this long counts as dead: it reports every second."""


class Refusal(enum.StrEnum):
    """The reason why the gateway ended a connection."""

    TOO_MANY = "too_many"
    HANDSHAKE = "handshake"
    CERTIFICATE = "certificate"
    LOGIN = "login"
    UNREACHED = "unreached"
    SILENT = "silent"
    NO_LOGIN = "no_login"
    REQUEST = "request"
    ANSWER = "answer"
    STALLED = "stalled"
    LEFT = "left"
    FOLLOWER = "follower"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFigures:
    """The figures of clients of one software and version. Figures that are no current numbers count since the start."""

    software: str
    version: str
    connections: int = 0
    connected: int = 0
    requests: int = 0
    request_bytes: int = 0
    answer_bytes: int = 0


def _sort_refused(refused: Mapping[Refusal, int]) -> dict[str, int]:
    return {str(why): refused[why] for why in sorted(refused)}


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayFigures:
    """The figures of a gateway of a cluster, in one or several processes.

    `metadata_age_s` is the age in seconds of the cluster's last report of its brokers; `gathered_bytes` the memory of
    large requests and answers at this moment.
    """

    cluster: str
    processes: int = 1
    brokers: int = 0
    metadata_age_s: Annotated[float, tenths] = 0.0
    is_ending: bool = False
    gathered_bytes: int = 0
    refused: Annotated[Mapping[Refusal, int], _sort_refused] = field(default_factory=dict)
    clients: Sequence[ClientFigures] = ()

    @computed_field(before="gathered_bytes")
    def connections(self) -> int:
        """The current number of connections."""
        return sum(each.connections for each in self.clients)

    def keep_counters(self) -> GatewayFigures:
        """Return the counters that remain when a process has ended."""
        clients = tuple(replace(each, connections=0) for each in self.clients)
        return GatewayFigures(cluster=self.cluster, processes=0, clients=clients, refused=self.refused)


def together(cluster: str, figures: Iterable[GatewayFigures]) -> GatewayFigures:
    """Add up the figures of the processes of one gateway."""
    refused, clients, known = Counter[Refusal](), dict[tuple[str, str], ClientFigures](), list(figures)
    for each in known:
        refused.update(each.refused)
        for client in each.clients:
            key = client.software, client.version
            clients[key] = _sum(clients.get(key, ClientFigures(software=key[0], version=key[1])), client)
    alive = [each for each in known if each.processes]
    return GatewayFigures(
        cluster=cluster,
        processes=sum(each.processes for each in alive),
        brokers=max((each.brokers for each in alive), default=0),
        metadata_age_s=max((each.metadata_age_s for each in alive), default=0.0),
        is_ending=any(each.is_ending for each in alive),
        gathered_bytes=sum(each.gathered_bytes for each in alive),
        clients=tuple(clients[key] for key in sorted(clients)),
        refused=dict(refused),
    )


def _sum(one: ClientFigures, other: ClientFigures) -> ClientFigures:
    return replace(
        one,
        connections=one.connections + other.connections,
        connected=one.connected + other.connected,
        requests=one.requests + other.requests,
        request_bytes=one.request_bytes + other.request_bytes,
        answer_bytes=one.answer_bytes + other.answer_bytes,
    )
