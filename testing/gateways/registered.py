"""Gateways as ledgers know them: registered, movable, and elsewhere."""

from __future__ import annotations

import asyncio
import uuid

from confluent_kafka import Producer

from isthmus.kafka.client import Client
from isthmus.ledger.documents.kinds import Document, GatewayDocument, MovableGatewayDocument, encode_document
from isthmus.ledger.log import append_once
from isthmus.ledger.topic import LEDGER_TOPIC
from isthmus.local import LocalCluster
from testing.patience import TERM_S


def elsewhere(address: str) -> GatewayDocument:
    """A gateway of a host that is gone."""
    return GatewayDocument(
        gateway=uuid.uuid4().hex, host="elsewhere", pid=7, advertised=address, ports=(1, 2), version="1", since_ms=0,
        host_id="another boot", process_start=1,
    )  # fmt: skip


def movable(one: GatewayDocument, cluster: LocalCluster) -> MovableGatewayDocument:
    """What it says to who moves clients."""
    return MovableGatewayDocument(
        gateway=one.gateway, described=one.described, serves=cluster.cluster_id or "", ports=2
    )


def written(cluster: LocalCluster, *documents: Document, at_ms: int | None = None) -> None:
    """Have a ledger hold these; by a clock that shows another time."""

    async def begin() -> None:
        async with Client(cluster.cluster()) as client:
            await append_once(client, documents, replication_factor=1)

    asyncio.run(begin())
    if at_ms is not None:
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
        for each in documents:
            producer.produce(LEDGER_TOPIC, encode_document(each), each.key, partition=0, timestamp=at_ms)
        assert producer.flush(TERM_S) == 0
