"""Find the client quotas of brokers that bound a link."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from isthmus.errors import NotAuthorized, UnsupportedByBroker
from isthmus.kafka.admin.quotas import client_quotas
from isthmus.kafka.client import Client
from isthmus.model.cluster import Cluster
from isthmus.model.kafka.findings import Finding, Level
from isthmus.model.kafka.quotas import ClientQuota, bounding

_CHECK: Final = "quotas"
_READING: Final = ("consumer_byte_rate", "request_percentage")
_WRITING: Final = ("producer_byte_rate", "request_percentage")
_ANONYMOUS: Final = "ANONYMOUS"


async def quota_findings(link: str, source: Client, target: Client) -> list[Finding]:
    """Report the quotas that count for a link at both clusters, a finding each; none is a fault, as it may be intended.

    :raises ClusterError: A cluster does not answer.
    """
    found: list[Finding] = []
    for client, limits in ((source, _READING), (target, _WRITING)):
        alias = client.cluster.alias
        try:
            quotas = await client_quotas(client)
        except (NotAuthorized, UnsupportedByBroker) as error:
            found.append(_build_finding(link, f"not examined at {alias}: {error.message}"))
            continue
        found += [
            _build_finding(link, f"{alias} allows {quota.subject} {_amount(quota)}, on each broker")
            for quota in _of(client.cluster, quotas, limits)
        ]
    return found


def _of(cluster: Cluster, quotas: list[ClientQuota], limits: tuple[str, ...]) -> Iterator[ClientQuota]:
    security = cluster.security
    # Only brokers know the user of a certificate or a token.
    user = _ANONYMOUS if security.protocol == "PLAINTEXT" else security.username
    for limit in limits:
        if (quota := bounding(quotas, user, cluster.client_id, limit)) is not None:
            yield quota


def _amount(quota: ClientQuota) -> str:
    unit = "percent of a thread's time" if quota.limit == "request_percentage" else "bytes/s"
    return f"{quota.value:,.0f} {unit} ({quota.limit})"


def _build_finding(link: str, message: str) -> Finding:
    return Finding(level=Level.OK, subject=link, check=_CHECK, message=message)
