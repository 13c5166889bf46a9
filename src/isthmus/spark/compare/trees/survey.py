"""Survey all clusters of a tree: their log ranges, and the positions of the distributors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Final

from isthmus.kafka import codes
from isthmus.kafka.admin.configs import find_compacted
from isthmus.kafka.client import Client
from isthmus.kafka.log.listoffsets import PartitionKey
from isthmus.kafka.log.offsets import log_ranges
from isthmus.kafka.log.reading import LogReader, OffsetRange
from isthmus.kafka.log.slices import slices
from isthmus.kafka.session import ClientSession
from isthmus.ledger.link import read_documents
from isthmus.model.cluster import Cluster
from isthmus.model.kafka.log import LogRange
from isthmus.model.kafka.rights import on_topic
from isthmus.model.trees.tree import Tree
from isthmus.spark.compare.links.mapping import mapping_of
from isthmus.spark.compare.trees.judgement import ClusterLogs, TreeStandings
from isthmus.spark.compare.trees.records import TreeSlice

_NO_LOG: Final = LogRange(0, 0, 0)


async def survey(
    clusters: Sequence[Cluster],
    tree: Tree,
    topics: Collection[str],
    doubted: Collection[str],
    switched: Collection[str],
) -> tuple[TreeStandings, list[tuple[TreeSlice, int]]]:
    """Return the standings of a tree, and the slices to read of its clusters, with their sizes. The clusters are in the
    order of the tree.

    Log ends are read twice. Records there at the first look had come in before the second one on any cluster; and
    records that had come in before the first one may have come to others up to the second. The positions of the
    distributors are read between the two.

    :raises ClusterError: A log or a ledger cannot be read.
    """
    async with _open_clients(clusters) as clients:
        keys = await asyncio.gather(*(_list_partitions(client, topics) for client in clients))
        early = await _read_logs(clients, keys)
        copied_to = await _read_copied_to(clients, tree)
        late = await _read_logs(clients, keys)
        lanes = tuple(sorted({key for found in keys for key in found}))
        cut = await asyncio.gather(
            *(_cut_slices(clients, number, lanes, early, late) for number in range(len(clients)))
        )
        compacted = await asyncio.gather(
            *(
                find_compacted(client, {topic for topic, _ in found})
                for client, found in zip(clients, keys, strict=True)
            )
        )
    standings = TreeStandings(
        tree=tree,
        lanes=lanes,
        early=early,
        late=late,
        copied_to=copied_to,
        doubted=doubted,
        switched=switched,
        compacted=frozenset[str]().union(*compacted),
    )
    return standings, [part for parts in cut for part in parts]


async def logs_now(clusters: Sequence[Cluster], known: ClusterLogs) -> ClusterLogs:
    """Read the current logs, as retention may have gone on.

    :raises ClusterError: A cluster does not answer.
    """
    async with _open_clients(clusters) as clients:
        return await _read_logs(clients, [set(known[client.cluster.alias]) for client in clients])


@asynccontextmanager
async def _open_clients(clusters: Iterable[Cluster]) -> AsyncIterator[list[Client]]:
    async with ClientSession() as session:
        yield [session.client(each) for each in clusters]


async def _list_partitions(client: Client, topics: Collection[str]) -> set[PartitionKey]:
    """List the partitions that a cluster has of topics: not all topics have to exist yet."""
    metadata = await client.metadata(sorted(topics))
    found: set[PartitionKey] = set()
    for name, topic in metadata.topics.items():
        if topic.error_code != codes.UNKNOWN_TOPIC_OR_PARTITION:
            right = on_topic("DESCRIBE", name)
            codes.raise_for_code(topic.error_code, f"reading topic {name}", right, cluster=client.cluster.alias)
            found |= {(name, each.partition) for each in topic.partitions}
    return found


async def _read_logs(clients: Sequence[Client], keys: Sequence[Collection[PartitionKey]]) -> ClusterLogs:
    found = await asyncio.gather(*(log_ranges(client, wanted) for client, wanted in zip(clients, keys, strict=True)))
    return {client.cluster.alias: outcomes.all() for client, outcomes in zip(clients, found, strict=True)}


async def _read_copied_to(clients: Sequence[Client], tree: Tree) -> dict[str, dict[PartitionKey, int]]:
    """Read up to which offset of its source each distributor has copied each partition, by its target's ledger."""
    found = await asyncio.gather(*map(read_documents, clients))
    documents = {client.cluster.alias: each for client, each in zip(clients, found, strict=True)}
    return {
        each.name: {
            key: lane.cursor.source_offset for key, lane in mapping_of(each.name, documents[each.target]).lanes.items()
        }
        for each in tree.distributors
    }


async def _cut_slices(
    clients: Sequence[Client], number: int, lanes: Sequence[PartitionKey], early: ClusterLogs, late: ClusterLogs
) -> list[tuple[TreeSlice, int]]:
    client = clients[number]
    alias = client.cluster.alias
    logs = {lane: late[alias][key] for lane, key in enumerate(lanes) if key in late[alias]}
    spans = [OffsetRange(*lanes[lane], log.start, log.stable_end) for lane, log in logs.items()]
    found: list[tuple[TreeSlice, int]] = []
    for lane, parts in zip(logs, await slices(LogReader(client), spans), strict=True):
        end = early[alias].get(lanes[lane], _NO_LOG).stable_end
        found += [(TreeSlice(lane, number, alias, part.span, end), part.size_bytes) for part in parts]
    return found
