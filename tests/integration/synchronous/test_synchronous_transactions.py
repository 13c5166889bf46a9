"""A transaction that is open as its synchronous link falls out of sync is in the way until its client is told."""

from __future__ import annotations

import asyncio

import pytest
from confluent_kafka import KafkaException, Producer
from pyspark.sql import SparkSession

from isthmus.gateway.synchronous.heldlink import HeldLink
from isthmus.local import LocalCluster
from isthmus.model.links.pair import PairState
from testing.brokers.proxy import HOST
from testing.links.synchronous import Side, Trial, begun, gateway, run_beside
from testing.patience import TERM_S
from testing.records import oracle

pytestmark = pytest.mark.integration
LONG_MS = 600_000
"""No coordinator ends a transaction before the test does."""


def looked_again(side: Side, link: HeldLink) -> bool:
    """Whether the gateway holds again once it has looked whether the lanes follow."""
    asyncio.run_coroutine_threadsafe(link._look(), side.loop).result(TERM_S)
    return link.part.is_holding


def is_freed_by_its_client(trial: Trial, side: Side) -> None:
    """Its plain records wait behind an open transaction of the same partition, until that is aborted."""
    writer = trial.becomes_synchronous(side)
    trial.fabric.declarations.update(trial.name, settings={"sync.lag_max_ms": 1000})
    within = Producer(
        {"bootstrap.servers": f"{HOST}:{side.port}", "transactional.id": trial.name, "transaction.timeout.ms": LONG_MS}
    )
    within.init_transactions(TERM_S)
    within.begin_transaction()
    within.produce(trial.topic, b"aborted", partition=0)
    assert within.flush(TERM_S) == 0

    writer.write(trial.topic)
    assert (len(writer.acknowledged), writer.broken) == (6, [])
    trial.stands(PairState.OUT_OF_SYNC)
    (link,) = side.links._links.values()
    # Its lanes lag by nothing that could be copied.
    assert [looked_again(side, link) for _ in range(3)] == [False] * 3

    within.produce(trial.topic, b"aborted", partition=0)
    assert within.flush(TERM_S) == 0
    with pytest.raises(KafkaException) as caught:
        within.commit_transaction(TERM_S)
    assert caught.value.args[0].txn_requires_abort()
    within.abort_transaction(TERM_S)
    trial.stands(PairState.IN_SYNC)
    assert trial.given_up() == ()
    within.begin_transaction()
    within.produce(trial.topic, b"committed", partition=0)
    within.commit_transaction(TERM_S)
    (found,) = oracle.records(trial.follower.admin_bootstrap_servers, trial.topic)
    assert [each.value for each in found] == [b"value"] * 6 + [b"committed"]


def test_an_open_transaction(east: LocalCluster, guarded: LocalCluster, spark: SparkSession) -> None:
    """Where transactions are copied record by record the link is tried again when what stood still has moved, and the
    client aborts as soon as it writes: the link is in sync though its coordinator would wait for minutes.
    """
    trial = begun("stall", east, guarded, settings={"transactions.visibility": "record"})

    def scenario() -> None:
        trial.stands(PairState.FOLLOWING)
        trial.is_refused()
        with gateway(trial.direct) as side:
            is_freed_by_its_client(trial, side)
        trial.mode("async")

    run_beside(trial, spark, scenario, trial.direct)
