"""Reads a whole cluster into one report. Parts hidden by its version or our rights are noted there, not raised."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Iterable
from dataclasses import replace
from typing import Final, TypeVar

from kafka.protocol.admin import DescribeQuorumRequest

from isthmus.errors import ClusterError, UnsupportedByBroker
from isthmus.kafka.admin.brokers import describe_cluster, told_releases
from isthmus.kafka.admin.configs import describe_broker_configs, describe_topic_configs
from isthmus.kafka.admin.features import features
from isthmus.kafka.admin.partitions import partition_states
from isthmus.kafka.admin.quorum import NOT_TOLD, quorum_findings
from isthmus.kafka.client import Client
from isthmus.kafka.metadata import Broker
from isthmus.kafka.transactions.open import open_transactions
from isthmus.model.kafka import durability, health
from isthmus.model.kafka.brokersettings import SHOWN_SETTINGS, BrokerSetting, shared_settings
from isthmus.model.kafka.description import BrokerDescription, ClusterReport, MetadataMode, Quorum
from isthmus.model.kafka.durability import OFFSETS_TOPIC
from isthmus.model.kafka.findings import Finding
from isthmus.model.kafka.partitions import PartitionState, broker_loads

_MS_PER_S: Final = 1000
_POLICY: Final = "cleanup.policy"
ValueT = TypeVar("ValueT")


async def describe(client: Client) -> ClusterReport:
    """Describe the cluster with all topics we may see (DESCRIBE), and the findings that follow.

    :raises ClusterError: The cluster did not answer.
    """
    cluster, metadata, mode = await asyncio.gather(
        describe_cluster(client), client.metadata(None), metadata_mode(client)
    )
    not_told: dict[str, str] = {}
    (partitions, untold), levels, brokers = await asyncio.gather(
        partition_states(client, metadata),
        _try_part(features(client), "features", not_told),
        _brokers(client, {**cluster.brokers, **cluster.fenced}, frozenset(cluster.fenced)),
    )
    transactions, silent = await open_transactions(client, partitions)
    settings, policy = await asyncio.gather(
        _try_part(broker_settings(client, cluster.brokers), "settings", not_told), _offsets_policy(client, partitions)
    )
    # Last, as a broker that waits for a frozen controller answers nothing else on the same connection.
    controllers: Quorum | None = None
    found: tuple[Finding, ...] = ()
    if mode is MetadataMode.KRAFT:
        controllers, found, reason = await quorum_findings(client)
        if reason is not None:
            not_told["quorum"] = reason
    not_told.update({**untold, **silent})
    if levels is None:
        not_told.setdefault("features", NOT_TOLD)
    controller = cluster.controller_id if mode is MetadataMode.ZOOKEEPER else None
    if controllers is not None:
        # A KRaft broker reports any broker as its controller, as clients may ask all of them.
        controller = controllers.leader_id
    return _with_findings(
        ClusterReport(
            cluster=client.cluster.alias,
            cluster_id=cluster.cluster_id,
            mode=mode,
            controller=controller,
            brokers=brokers,
            quorum=controllers,
            features=levels or (),
            partitions=partitions,
            loads=broker_loads(partitions, {**cluster.brokers, **cluster.fenced}),
            transactions=transactions,
            settings=settings or (),
            not_told=not_told,
        ),
        found,
        policy,
    )


async def _offsets_policy(client: Client, partitions: Iterable[PartitionState]) -> str | None:
    """The `cleanup.policy` of the topic of commits, None if it does not exist or we may not see it."""
    if not any(state.topic == OFFSETS_TOPIC for state in partitions):
        return None
    reported = (await describe_topic_configs(client, [OFFSETS_TOPIC], only=(_POLICY,))).values
    entry = reported.get(OFFSETS_TOPIC, {}).get(_POLICY)
    return None if entry is None else entry.value


async def broker_settings(client: Client, brokers: Iterable[int]) -> tuple[BrokerSetting, ...]:
    """Read the brokers' settings that are displayed. Needs DESCRIBE_CONFIGS on the cluster.

    :raises NotAuthorized: The right is missing.
    :raises Unreachable: A broker did not answer.
    """
    nodes = sorted(brokers)
    reported = await asyncio.gather(*(describe_broker_configs(client, node, only=SHOWN_SETTINGS) for node in nodes))
    return shared_settings(
        {
            node: {name: entry.value for name, entry in configs.items() if entry.value is not None}
            for node, configs in zip(nodes, reported, strict=True)
        }
    )


def _with_findings(
    report: ClusterReport, about_quorum: tuple[Finding, ...], offsets_policy: str | None
) -> ClusterReport:
    alias, now_ms = report.cluster, int(time.time() * _MS_PER_S)
    findings = (
        *health.cluster_id_findings(alias, report.cluster_id),
        *health.broker_findings(alias, report.brokers),
        *about_quorum,
        *health.partition_findings(alias, report.partitions),
        *health.skew_findings(alias, report.loads),
        *health.transaction_findings(alias, report.transactions, now_ms=now_ms),
        *durability.offsets_findings(alias, report.partitions, offsets_policy, report.settings),
        *durability.margin_findings(alias, report.partitions, len(report.brokers)),
    )
    return replace(report, findings=findings)


async def metadata_mode(client: Client) -> MetadataMode:
    """Whether the cluster keeps its metadata in KRaft or in ZooKeeper.

    Brokers offer DescribeQuorum in KRaft only. KRaft was a preview before 3.3 and looks like ZooKeeper here.

    :raises ClusterError: The cluster did not answer.
    """
    metadata = await client.metadata()
    last: ClusterError | None = None
    for node_id in metadata.brokers:
        try:
            connection = await client.connection(node_id)
        except ClusterError as error:
            last = error
            continue
        return (
            MetadataMode.KRAFT if DescribeQuorumRequest.API_KEY in connection.api_versions else MetadataMode.ZOOKEEPER
        )
    raise last or ClusterError(f"{client.cluster.alias} has no brokers", cluster=client.cluster.alias)


async def _brokers(client: Client, brokers: dict[int, Broker], fenced: frozenset[int]) -> tuple[BrokerDescription, ...]:
    """Describe the brokers with their releases, as far as they answer."""
    releases = await told_releases(client, brokers.keys() - fenced)
    versions = {node_id: str(reported) for node_id, reported in releases.items()}
    return tuple(
        BrokerDescription(node_id, node.host, node.port, node.rack, versions.get(node_id), node_id in fenced)
        for node_id, node in sorted(brokers.items())
    )


async def _try_part(asked: Awaitable[ValueT], part: str, not_told: dict[str, str]) -> ValueT | None:
    """Await the value of a part, or return `None` with the reason in `not_told`."""
    try:
        return await asked
    except UnsupportedByBroker:
        not_told[part] = NOT_TOLD
    except ClusterError as error:
        not_told[part] = error.message
    return None
