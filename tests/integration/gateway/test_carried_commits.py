"""Commits that were decided at another cluster, asked for again through a gateway that may not ask whose they are."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AclOperation, ResourceType
from kafka.protocol.producer import EndTxnRequest

from isthmus.gateway.frames.serving import Serving
from isthmus.kafka import codes
from isthmus.kafka.client import Client
from isthmus.local import LocalCluster
from isthmus.model.cluster import Cluster
from isthmus.model.configuration import Configuration
from isthmus.model.gateways.carriedtransactions import CarriedTransaction, CarriedTransactions
from testing.brokers.acls import denied
from testing.gateways.gateways import gateway
from testing.patience import TERM_S

pytestmark = pytest.mark.integration
PRODUCER = 5_000_000


@pytest.mark.parametrize("version", [3, 5])
def test_a_commit_that_the_cluster_knows_nothing_of(
    version: int, secured: LocalCluster, topic: Callable[[str], str]
) -> None:
    """Where the other one has committed it the client is told so, and of another one what this cluster says."""
    name, login = topic("carried"), secured.cluster()
    # From then on there are coordinators.
    other = {"bootstrap.servers": secured.admin_bootstrap_servers, "transactional.id": f"other-{name}"}
    Producer(other).init_transactions(TERM_S)
    known = CarriedTransaction(name, PRODUCER, 1, is_committed=True)

    async def told(front: Cluster, epoch: int) -> tuple[int, int, int]:
        deadline = time.monotonic() + TERM_S
        request = EndTxnRequest(
            transactional_id=name, producer_id=PRODUCER, producer_epoch=epoch, committed=True, max_version=version
        )
        async with Client(front) as client:
            while (answer := await client.broker(1, request)).error_code == codes.COORDINATOR_LOAD_IN_PROGRESS:
                assert time.monotonic() < deadline, "it is to come again for ever"
                await asyncio.sleep(0.1)
        return int(answer.error_code), int(answer.producer_id), int(answer.producer_epoch)

    with (
        denied(secured, ResourceType.TRANSACTIONAL_ID, name, AclOperation.DESCRIBE),
        gateway(login, configuration=Configuration(clusters=(login,), links=())) as running,
    ):
        running.gateway.serving = Serving(stay=1, transactions=CarriedTransactions([known], stay=1))
        security = replace(login.security, protocol="SASL_PLAINTEXT")
        front = Cluster(alias="front", bootstrap_servers=(running.servers,), security=security)
        epoch = 0 if version == 5 else 1
        producer = (PRODUCER, 1) if version == 5 else (-1, -1)
        assert asyncio.run(told(front, epoch)) == (codes.NONE, *producer)
        assert asyncio.run(told(front, 7))[0] == codes.INVALID_PRODUCER_ID_MAPPING
