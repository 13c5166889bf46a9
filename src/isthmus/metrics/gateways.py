"""Converts the figures of a gateway into families of metrics, and judges its health. Pure."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Final, Literal

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from isthmus import __version__
from isthmus.metrics import catalogue
from isthmus.metrics.catalogue import GATEWAY_METRICS
from isthmus.metrics.collector import Families
from isthmus.model.gateways.figures import FRESH_S, GatewayFigures
from isthmus.model.text.plain import IfKnown

METADATA_AGE_MAX_S: Final = 30.0
"""If a cluster has not reported its brokers for so long, it is unknown whether it can be reached."""
STUCK_S: Final = 60.0


class GatewayCollector(Collector):
    """A collector for a registry of prometheus_client: it reports the figures of a gateway."""

    def __init__(self, figures: Callable[[], GatewayFigures]) -> None:
        self._figures = figures

    def describe(self) -> Iterator[Metric]:
        """Yield the families, empty."""
        return iter(Families(GATEWAY_METRICS).all)

    def collect(self) -> Iterator[Metric]:
        """Yield the families with their present values."""
        families, figures = Families(GATEWAY_METRICS), self._figures()
        cluster = figures.cluster
        families.add(catalogue.BUILD, 1, __version__, platform.python_version())
        families.add(catalogue.GATEWAY_PROCESSES, figures.processes, cluster)
        families.add(catalogue.GATEWAY_BROKERS, figures.brokers, cluster)
        families.add(catalogue.GATEWAY_METADATA_AGE, figures.metadata_age_s, cluster)
        families.add(catalogue.GATEWAY_GATHERED, figures.gathered_bytes, cluster)
        for refusal, count in sorted(figures.refused.items()):
            families.add(catalogue.GATEWAY_REFUSED, count, cluster, str(refusal))
        for client in figures.clients:
            who = cluster, client.software, client.version
            families.add(catalogue.GATEWAY_CONNECTIONS, client.connections, *who)
            families.add(catalogue.GATEWAY_CONNECTED, client.connected, *who)
            families.add(catalogue.GATEWAY_REQUESTS, client.requests, *who)
            families.add(catalogue.GATEWAY_BYTES, client.request_bytes, *who, "requests")
            families.add(catalogue.GATEWAY_BYTES, client.answer_bytes, *who, "answers")
        return iter(families.all)


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayHealth:
    """How a gateway does: `reasons` are there where it does not do well."""

    status: Literal["ok", "unavailable", "healthy", "starting", "unhealthy"]
    version: IfKnown[str] = None
    gateway: IfKnown[GatewayFigures] = None
    reasons: IfKnown[list[str]] = None


@dataclass(frozen=True, slots=True)
class GatewayAnswer:
    """The answer to one question about a gateway."""

    status: HTTPStatus
    body: GatewayHealth | GatewayFigures


def livez(silences_s: Sequence[float]) -> GatewayAnswer:
    """Return whether processes with these times of silence, in seconds, work at all."""
    if silences_s and min(silences_s) <= STUCK_S:
        return GatewayAnswer(HTTPStatus.OK, GatewayHealth(status="ok"))
    return _unavailable(["no process has reported anything for a minute"])


def readyz(figures: GatewayFigures, silences_s: Sequence[float], *, processes: int) -> GatewayAnswer:
    """Return whether a gateway of so many processes accepts connections, and its cluster can be reached."""
    fresh = sum(silence_s <= FRESH_S for silence_s in silences_s)
    reasons: list[str] = []
    if figures.processes < processes or fresh < processes:
        reasons.append(f"{min(figures.processes, fresh)} of {processes} processes take connections")
    if figures.is_ending:
        reasons.append("the gateway is ending")
    if figures.metadata_age_s > METADATA_AGE_MAX_S:
        reasons.append(f"{figures.cluster} has not reported for {figures.metadata_age_s:.0f} s which brokers there are")
    return _unavailable(reasons) if reasons else GatewayAnswer(HTTPStatus.OK, GatewayHealth(status="ok"))


def health(alive: GatewayAnswer, ready: GatewayAnswer, gateway: GatewayFigures) -> GatewayAnswer:
    """Return both in one, with the figures."""
    body = GatewayHealth(status="healthy", version=__version__, gateway=gateway)
    if alive.status is not HTTPStatus.OK:
        return GatewayAnswer(HTTPStatus.INTERNAL_SERVER_ERROR, _because(alive, body))
    if ready.status is not HTTPStatus.OK:
        return GatewayAnswer(HTTPStatus.SERVICE_UNAVAILABLE, _because(ready, body))
    return GatewayAnswer(HTTPStatus.OK, body)


def _because(answer: GatewayAnswer, body: GatewayHealth) -> GatewayHealth:
    reasons = answer.body.reasons if isinstance(answer.body, GatewayHealth) else None
    return replace(body, status="unhealthy", reasons=reasons or [])


def _unavailable(reasons: list[str]) -> GatewayAnswer:
    return GatewayAnswer(HTTPStatus.SERVICE_UNAVAILABLE, GatewayHealth(status="unavailable", reasons=reasons))
