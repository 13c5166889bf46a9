"""The registry of a cluster, from where the cluster keeps it, compared with the answers of the brokers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

from isthmus.clusters.description import metadata_mode
from isthmus.kafka.admin.registry import told_registry
from isthmus.kafka.client import Client
from isthmus.kafka.zookeeper.reading import kept_registry
from isthmus.kafka.zookeeper.watching import watched_registry
from isthmus.model.cluster import Cluster
from isthmus.model.kafka.description import MetadataMode
from isthmus.model.kafka.findings import Finding
from isthmus.model.kafka.registry import Registry, disagreements
from isthmus.model.text.plain import Flat, PlainValue

AGAIN_S: Final = 1.0
"""The time (s) from a disagreement to a second look that decides: brokers learn of changes a moment later."""
_POLL_S: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryReport(PlainValue):
    """The registry of a cluster, and where it is kept.

    `statement` says where it was read, and `findings` where ZooKeeper and the brokers disagree.
    """

    cluster: str
    mode: MetadataMode
    is_from_zookeeper: bool
    statement: str
    registry: Flat[Registry]
    findings: tuple[Finding, ...] = ()


async def read_report(client: Client) -> RegistryReport:
    """Read the current registry.

    :raises HostError: The cluster has a ZooKeeper, and kazoo is not installed.
    :raises ClusterError: The cluster, or its ZooKeeper, did not answer.
    """
    cluster = client.cluster
    mode = await metadata_mode(client)
    is_kept = mode is MetadataMode.ZOOKEEPER and cluster.zookeeper is not None
    registry, findings = (
        await compare_registry(client, cluster.alias) if is_kept else (await told_registry(client, mode), ())
    )
    return RegistryReport(
        cluster=cluster.alias,
        mode=mode,
        is_from_zookeeper=is_kept,
        statement=_statement(cluster, mode),
        registry=registry,
        findings=findings,
    )


async def compare_registry(client: Client, subject: str) -> tuple[Registry, tuple[Finding, ...]]:
    """Read the registry from ZooKeeper, and find where the brokers disagreed with it twice.

    :raises HostError: kazoo is not installed.
    :raises ClusterError: The cluster, or its ZooKeeper, did not answer.
    """
    kept, found = await _look(client, subject)
    if found:
        await asyncio.sleep(AGAIN_S)
        kept, again = await _look(client, subject)
        found = tuple(finding for finding in found if finding in again)
    return kept, found


async def _look(client: Client, subject: str) -> tuple[Registry, tuple[Finding, ...]]:
    kept, reported = await asyncio.gather(
        asyncio.to_thread(kept_registry, client.cluster), told_registry(client, MetadataMode.ZOOKEEPER)
    )
    return kept, tuple(disagreements(subject, kept, reported))


async def watch(client: Client) -> AsyncIterator[Registry]:
    """Yield the current registry, and again whenever it has changed, without end.

    ZooKeeper reports changes at once; brokers cannot, and are asked every second.

    :raises HostError: The cluster has a ZooKeeper, and kazoo is not installed.
    :raises ClusterError: The cluster, or its ZooKeeper, did not answer.
    """
    mode = await metadata_mode(client)
    if mode is MetadataMode.ZOOKEEPER and client.cluster.zookeeper is not None:
        async for registry in _watch_zookeeper(client.cluster):
            yield registry
        return
    before: Registry | None = None
    while True:
        registry = await told_registry(client, mode)
        if registry != before:
            yield registry
        before = registry
        await asyncio.sleep(_POLL_S)


async def _watch_zookeeper(cluster: Cluster) -> AsyncIterator[Registry]:
    """Watch the registry in ZooKeeper, in threads: kazoo blocks."""
    over = threading.Event()
    changes = watched_registry(cluster, over)
    try:
        while (registry := await asyncio.to_thread(next, changes, None)) is not None:
            yield registry
    except GeneratorExit:
        # No thread is running it: its session ends at once.
        changes.close()
        raise
    finally:
        over.set()


def _statement(cluster: Cluster, mode: MetadataMode) -> str:
    if mode is MetadataMode.KRAFT:
        return f"{cluster.alias} keeps its registry in KRaft and has no ZooKeeper: this is the report of its brokers."
    if cluster.zookeeper is None:
        return (
            f"{cluster.alias} keeps its registry in ZooKeeper, and its configuration has no address of it "
            "(zookeeper): this is the report of its brokers."
        )
    return f"{cluster.alias} keeps its registry in ZooKeeper at {cluster.zookeeper}."
