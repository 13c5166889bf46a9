"""A synchronous link from end to end: a run, a gateway and clients; cut, back again, refused, downgraded."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial

import pytest
from confluent_kafka.admin import AclOperation, ResourceType
from pyspark.sql import SparkSession

from isthmus.local import LocalCluster
from isthmus.model.gateways.synchrony import Synchrony, SyncState
from isthmus.model.links.pair import PairState
from isthmus.model.text.plain import plain
from testing.brokers.acls import denied
from testing.brokers.hanging import trusting
from testing.brokers.proxy import Proxy
from testing.links.synchronous import Writer, begun, gateway, reached_through, run_beside
from testing.patience import TERM_S

pytestmark = pytest.mark.integration


def test_a_synchronous_link(east: LocalCluster, guarded: LocalCluster, spark: SparkSession) -> None:
    """No acknowledgement is given that is neither at the follower nor written down; and it comes back by itself."""
    trial = begun("sync", east, guarded, partitions=2)

    def scenario(proxy: Proxy) -> None:
        trial.stands(PairState.FOLLOWING)
        trial.is_refused()
        with gateway(trial.direct) as side:
            writer = trial.becomes_synchronous(side)
            trial.commits(side)
            trial.is_cut(writer, proxy)
            trial.outlives_a_gateway(side, proxy)

    with trusting(guarded), reached_through(trial) as (through, proxy):
        run_beside(trial, spark, partial(scenario, proxy), through)


def test_a_gateway_that_may_not_read_what_the_follower_has(
    east: LocalCluster, guarded: LocalCluster, spark: SparkSession
) -> None:
    """It could answer nothing, and says so: the link is not in sync before it may."""
    trial = begun("unread", east, guarded)
    limited = replace(trial.direct, clusters=(trial.direct.cluster("east"), guarded.cluster()))

    def scenario() -> None:
        trial.stands(PairState.FOLLOWING)
        trial.is_refused()
        rights = denied(guarded, ResourceType.TOPIC, trial.topic, AclOperation.READ)
        # It ends in good order, though it has nothing to take back in the follower's ledger.
        with rights, gateway(trial.direct, ledgers=limited):
            trial.mode("sync")
            reason, deadline = f"login may not READ {trial.topic} of guarded", time.monotonic() + TERM_S
            while reason not in ((found := trial.status()).sync or Synchrony(state=SyncState.IN_SYNC)).reason:
                assert time.monotonic() < deadline, plain(found)
                time.sleep(0.1)
            assert found.pair_state is PairState.SYNCING
        with gateway(trial.direct, ledgers=limited) as side:
            trial.stands(PairState.IN_SYNC)
            writer = Writer(side.port, guarded, trial.given_up)
            writer.write(trial.topic)
            assert (len(writer.acknowledged), writer.broken) == (1, [])
        trial.mode("async")

    run_beside(trial, spark, scenario, trial.direct)
