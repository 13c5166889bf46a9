"""Findings about the clusters of a configuration: states that keep links from working, or soon may."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from typing import Final

from isthmus.clusters.description import metadata_mode
from isthmus.clusters.registry import compare_registry
from isthmus.errors import ClusterError, HostError, IsthmusError
from isthmus.kafka.admin.brokers import ClusterDescription
from isthmus.kafka.admin.partitions import partition_states, partitions_of
from isthmus.kafka.admin.quorum import quorum_findings
from isthmus.kafka.client import Client
from isthmus.kafka.transactions.open import open_transactions
from isthmus.model.kafka import health
from isthmus.model.kafka.description import BrokerDescription, MetadataMode
from isthmus.model.kafka.findings import Finding, Level
from isthmus.model.kafka.partitions import broker_loads
from isthmus.model.text.wording import format_count

_MS_PER_S: Final = 1000


async def cluster_findings(client: Client, cluster: ClusterDescription) -> list[Finding]:
    """Examine the cluster id, fenced brokers, controllers, the spread of leaders, and whether ZooKeeper agrees."""
    alias = client.cluster.alias
    fenced = [BrokerDescription(node, at.host, at.port, at.rack, is_fenced=True) for node, at in cluster.fenced.items()]
    findings = [*health.cluster_id_findings(alias, cluster.cluster_id), *health.broker_findings(alias, fenced)]
    try:
        mode = await metadata_mode(client)
        partitions = partitions_of(await client.metadata(None))
    except ClusterError as error:
        return [*findings, _build_unexamined(alias, "brokers", error)]
    findings.extend(health.skew_findings(alias, broker_loads(partitions, cluster.brokers)))
    findings.extend(await (_quorum(client) if mode is MetadataMode.KRAFT else _zookeeper(client)))
    return findings


async def _quorum(client: Client) -> list[Finding]:
    alias = client.cluster.alias
    controllers, found, reason = await quorum_findings(client)
    if found:
        return list(found)
    if controllers is None:
        return [Finding(level=Level.WARN, subject=alias, check="quorum", message=f"not examined: {reason}")]
    summary = f"controller {controllers.leader_id} leads {format_count(len(controllers.voters), 'controller')} in KRaft"
    return [Finding(level=Level.OK, subject=alias, check="quorum", message=summary)]


async def _zookeeper(client: Client) -> list[Finding]:
    alias = client.cluster.alias
    if client.cluster.zookeeper is None:
        summary = "not compared: the cluster has one, and its configuration has no address of it (zookeeper)"
        return [Finding(level=Level.OK, subject=alias, check="zookeeper", message=summary)]
    try:
        registry, found = await compare_registry(client, alias)
    except (ClusterError, HostError) as error:
        return [_build_unexamined(alias, "zookeeper", error)]
    partitions = format_count(len(registry.partitions), "partition")
    summary = f"ZooKeeper and brokers agree on {format_count(len(registry.brokers), 'broker')} and {partitions}"
    return list(found) or [Finding(level=Level.OK, subject=alias, check="zookeeper", message=summary)]


async def topic_findings(client: Client, names: Collection[str], *, is_source: bool) -> list[Finding]:
    """Find problems of the partitions of topics, and at a source the transactions that hold the mirror back.

    :raises ClusterError: The cluster did not answer.
    """
    if not names:
        return []
    alias = client.cluster.alias
    partitions, _ = await partition_states(client, await client.metadata(sorted(names)))
    findings = list(health.partition_findings(alias, partitions))
    if is_source:
        transactions, _ = await open_transactions(client, partitions)
        now_ms = int(time.time() * _MS_PER_S)
        findings.extend(health.transaction_findings(alias, transactions, now_ms=now_ms))
    return findings


async def link_findings(
    source: Client, target: Client, at_source: Collection[str], at_target: Collection[str]
) -> list[Finding]:
    """Find problems of the topics of a link on both sides.

    :raises ClusterError: A cluster did not answer.
    """
    found = await asyncio.gather(
        topic_findings(source, at_source, is_source=True), topic_findings(target, at_target, is_source=False)
    )
    return [finding for side in found for finding in side]


def _build_unexamined(alias: str, check: str, error: IsthmusError) -> Finding:
    return Finding(level=Level.WARN, subject=alias, check=check, message=error.message, hint=error.hint)
