"""Links that clusters declare: two clusters under names of their own, and what each remembers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from isthmus.errors import ConfigError
from isthmus.fabric.fabric import Fabric
from isthmus.kafka.client import Client
from isthmus.ledger.documents.lastknown import KnownClusterDocument, KnownNamesDocument
from isthmus.ledger.link import read_documents
from isthmus.ledger.log import LedgerWriter
from isthmus.ledger.records import LedgerChange
from isthmus.local import LocalCluster
from isthmus.model.cluster import Cluster
from isthmus.model.configuration import Configuration, SparkSettings
from isthmus.model.namespace import NamespaceMap

Namer = Callable[[str], str]


@pytest.fixture
def both(east: LocalCluster, west: LocalCluster) -> Configuration:
    """A file with both clusters and no link. Leases last, so that one that begins anew was disturbed."""
    spark = SparkSettings(lease_term_s=600.0)
    return Configuration(clusters=(east.cluster(), west.cluster()), links=(), spark=spark)


@pytest.fixture
def name(topic: Namer, both: Configuration) -> Iterator[str]:
    """The name of a link that is deleted in the end, so that no other test runs it."""
    name = topic("declared")
    yield name
    try:
        Fabric(both).declarations.delete(name)
    except ConfigError:
        return


def cut(configuration: Configuration, alias: str) -> Configuration:
    """The same file where one cluster cannot be reached: nobody listens at that port."""
    gone = replace(configuration.cluster(alias), bootstrap_servers=("127.0.0.1:1",))
    return replace(
        configuration, clusters=tuple(gone if each.alias == alias else each for each in configuration.clusters)
    )


def maps(*texts: str) -> tuple[NamespaceMap, ...]:
    return tuple(map(NamespaceMap.parse, texts))


async def remembers(both: Configuration, keeper: str, seen: str, link: str) -> bool:
    """Whether one cluster remembers the other as the link saw it, and its topics."""
    async with Client(both.cluster(keeper)) as client:
        documents = (await read_documents(client)).values()
    known = [one.cluster for one in KnownClusterDocument.find_all(documents)]
    names = [one.names for one in KnownNamesDocument.find_all(documents, link)]
    ids = {one.cluster_id for one in known if one.alias == seen and one.link == link}
    return any(one.cluster_id in ids and one.topics for one in names)


async def written(cluster: Cluster, *changes: LedgerChange) -> None:
    """Have a cluster's ledger hold these."""
    async with Client(cluster) as client:
        writer = LedgerWriter(client)
        await writer.append(changes)
        writer.close()
