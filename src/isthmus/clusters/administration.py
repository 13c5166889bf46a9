"""The administration of one cluster of a configuration: the values behind `isthmus cluster`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Final

from isthmus.clusters.description import broker_settings, describe
from isthmus.clusters.lastknown.lastknown import last_known
from isthmus.clusters.look import survey
from isthmus.clusters.registry import RegistryReport, read_report, watch
from isthmus.clusters.survey import ClusterSurvey
from isthmus.errors import ClusterError, ConfigError
from isthmus.kafka import codes
from isthmus.kafka.admin.elections import elect
from isthmus.kafka.admin.partitions import partition_states, partitions_of
from isthmus.kafka.admin.reassignment import Underway, reassignments
from isthmus.kafka.client import Client
from isthmus.kafka.groups.consumption import group_reports
from isthmus.kafka.log.listoffsets import PartitionKey
from isthmus.kafka.log.replicas import with_lags
from isthmus.kafka.metadata import Metadata
from isthmus.kafka.session import ClientSession
from isthmus.kafka.transactions.open import open_transactions
from isthmus.model.cluster import Cluster
from isthmus.model.configuration import LedgerSettings
from isthmus.model.kafka import health
from isthmus.model.kafka.brokersettings import BrokerSetting
from isthmus.model.kafka.consumption import GroupsReport
from isthmus.model.kafka.description import ClusterReport
from isthmus.model.kafka.elections import Election, plan_elections
from isthmus.model.kafka.findings import Finding
from isthmus.model.kafka.partitions import PartitionState
from isthmus.model.kafka.registry import Registry
from isthmus.model.kafka.transactions import OpenTransaction
from isthmus.model.links.lastknown import LastKnown
from isthmus.model.text.plain import PlainValue
from isthmus.model.text.wording import format_count
from isthmus.namespaces.namespaces import AsyncNamespaces
from isthmus.offsetscopy.copies import CopiedCommit, copied_commits

_MS_PER_S: Final = 1000
_UNKNOWN_TRIES: Final = 3
_RETRY_S: Final = 0.2
_MISSING: Final = codes.AUTHORIZATION | {codes.UNKNOWN_TOPIC_OR_PARTITION, codes.INVALID_TOPIC}


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsReport(PlainValue):
    """Topics of one cluster, partition by partition, with the findings that follow from their state."""

    cluster: str
    partitions: tuple[PartitionState, ...]
    transactions: tuple[OpenTransaction, ...] = ()
    settings: tuple[BrokerSetting, ...] = ()
    findings: tuple[Finding, ...] = ()
    not_told: Mapping[str, str] = field(default_factory=dict)


class AsyncAdministration:
    """One Kafka cluster, reached as the configuration says.

    Where the brokers' version or our rights keep
    something back, the value says so in `not_told`; what is there is there.
    """

    def __init__(
        self,
        cluster: Cluster,
        session: ClientSession,
        ledger: LedgerSettings | None = None,
        all_of: Sequence[Cluster] = (),
    ) -> None:
        self.cluster = cluster
        self._client = session.client(cluster)
        self._others = [session.client(other) for other in all_of if other.alias != cluster.alias]
        self._session = session
        self._ledger = ledger or LedgerSettings()

    @property
    def namespaces(self) -> AsyncNamespaces:
        """The declared namespaces of the cluster."""
        return AsyncNamespaces(self.cluster, self._session, self._ledger)

    async def describe(self) -> ClusterReport:
        """Describe brokers, controller, quorum, features, open transactions, and findings over all topics.

        :raises ClusterError: The cluster did not answer.
        """
        return await describe(self._client)

    async def survey(self) -> ClusterSurvey:
        """Survey a cluster for the first time.

        :raises ClusterError: It does not answer, or rejects our login.
        """
        return await survey(self._client)

    async def last_known(self) -> LastKnown:
        """Return the state of the cluster when a link last saw it, by the memories of other configured clusters.

        The cluster itself is not asked.

        :raises ConfigError: None of them remembers it.
        :raises ClusterError: None of those that answer remembers it, and some do not answer.
        """
        return await last_known(self.cluster.alias, self._others)

    async def copied_commits(
        self, *, source_id: str | None = None, groups: Collection[str] = (), key: bytes | None = None
    ) -> tuple[CopiedCommit, ...]:
        """Read the positions that groups of other clusters committed there, if this cluster has copies of them; of
        one source, by its cluster id, or of all. `key` opens the encrypted values of the group it belongs to.

        :raises ConfigError: It holds no copy, or none of that source.
        :raises ClusterError: The cluster did not answer.
        """
        return await copied_commits(self._client, source_id=source_id, groups=groups, key=key)

    async def topics(self, names: Collection[str] = ()) -> TopicsReport:
        """Describe leaders, replicas and offsets of all topics, or of those named.

        :raises ConfigError: There is no topic of that name, or we may not see it.
        :raises ClusterError: The cluster did not answer.
        """
        metadata = await seen_topics(self._client, names)
        partitions, not_told = await partition_states(self._client, metadata)
        transactions, silent = await open_transactions(self._client, partitions)
        partitions = await with_lags(self._client, partitions)
        try:
            under_way = await reassignments(self._client)
            settings = await broker_settings(self._client, metadata.brokers)
        except ClusterError as error:
            under_way, settings, silent = {}, (), {**silent, "reassignments": error.message}
        alias, now_ms = self.cluster.alias, int(time.time() * _MS_PER_S)
        return TopicsReport(
            cluster=alias,
            partitions=tuple(_moving(state, under_way) for state in partitions),
            transactions=transactions,
            settings=settings,
            findings=(
                *health.partition_findings(alias, partitions),
                *health.transaction_findings(alias, transactions, now_ms=now_ms),
            ),
            not_told={**not_told, **silent},
        )

    async def elect_leaders(self, topics: Collection[str] = (), *, dry_run: bool = False) -> tuple[Election, ...]:
        """Let the preferred replicas of all topics, or of those named, lead again, where they are in sync.

        With `dry_run` nothing is done: what would be is `PENDING`.

        :raises ConfigError: There is no topic of that name, or we may not see it.
        :raises NotAuthorized: ALTER on the cluster is missing.
        :raises ClusterError: The cluster did not answer.
        """
        metadata = await seen_topics(self._client, topics)
        elections = plan_elections(partitions_of(metadata))
        return elections if dry_run else await elect(self._client, elections)

    async def groups(self, names: Collection[str] = ()) -> GroupsReport:
        """Describe state, members, coordinator, positions and lags of all groups we may see, or of those named.

        A group that does not exist has a problem; the others go on.

        :raises ClusterError: The cluster did not answer.
        """
        return await group_reports(self._client, names)

    async def registry(self) -> RegistryReport:
        """Read the registry of brokers and partitions, from ZooKeeper where the cluster has one and it is configured.

        :raises HostError: The cluster has a ZooKeeper, and kazoo is not installed.
        :raises ClusterError: The cluster, or its ZooKeeper, did not answer.
        """
        return await read_report(self._client)

    def watch_registry(self) -> AsyncIterator[Registry]:
        """Yield the current registry, and again whenever it has changed, without end.

        :raises HostError: The cluster has a ZooKeeper, and kazoo is not installed.
        :raises ClusterError: The cluster, or its ZooKeeper, did not answer.
        """
        return watch(self._client)


def _moving(state: PartitionState, under_way: Mapping[PartitionKey, Underway]) -> PartitionState:
    its = under_way.get((state.topic, state.partition))
    return state if its is None else state._replace(adding=its.adding, removing=its.removing)


async def seen_topics(client: Client, names: Collection[str]) -> Metadata:
    """Read the metadata of all topics, or of those named.

    :raises ConfigError: There is no topic of that name, or we may not see it.
    :raises ClusterError: The cluster did not answer.
    """
    for attempt in range(_UNKNOWN_TRIES):
        if attempt:
            # A broker may not know a topic yet that was just created.
            await asyncio.sleep(_RETRY_S)
        metadata = await client.metadata(sorted(names) if names else None)
        missing = [topic.name for topic in metadata.topics.values() if topic.error_code in _MISSING]
        if not missing:
            return metadata
    there = (await client.metadata(None)).topics
    near = get_close_matches(missing[0], there, n=1)
    raise ConfigError(
        f"{client.cluster.alias} has no topic {missing[0]}, or we may not see it (DESCRIBE)",
        hint=f"Did you mean {near[0]}?" if near else f"We may see {format_count(len(there), 'topic')}.",
    )
