"""Report the addresses of brokers that are reached otherwise than advertised."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from isthmus.kafka.connect.address import reached_at, written_address
from isthmus.kafka.metadata import Broker
from isthmus.model.cluster import Cluster
from isthmus.model.kafka.findings import Finding, Level

_CHECK = "network"


def network_findings(cluster: Cluster, brokers: Mapping[int, Broker]) -> Iterator[Finding]:
    """Yield findings on how each broker is reached, and on configured addresses that no broker has."""
    if cluster.proxy is None and not cluster.addresses:
        return
    through = f" through the proxy {cluster.proxy}" if cluster.proxy is not None else ""
    for broker in brokers.values():
        advertised, reached = (broker.host, broker.port), reached_at(cluster, broker.host, broker.port)
        way = "as it says" if advertised == reached else f"at {written_address(*reached)}"
        message = f"broker {broker.node_id} advertises {written_address(*advertised)} and is reached {way}{through}"
        yield Finding(level=Level.OK, subject=cluster.alias, check=_CHECK, message=message)
    known = {written_address(broker.host, broker.port).lower() for broker in brokers.values()}
    known.update(server.lower() for server in cluster.bootstrap_servers)
    if unused := [advertised for advertised, _ in cluster.addresses if advertised.lower() not in known]:
        yield Finding(
            level=Level.WARN,
            subject=cluster.alias,
            check=_CHECK,
            message=f"clusters.{cluster.alias}.addresses names {', '.join(unused)}, which no broker advertises now",
            hint="Write the addresses as brokers advertise them (isthmus cluster describe); a broker that is away "
            "keeps its own.",
        )
