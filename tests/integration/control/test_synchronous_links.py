"""A synchronous link from end to end: a run, a gateway and clients; cut, back again, refused, downgraded."""

from __future__ import annotations

from functools import partial

import pytest
from pyspark.sql import SparkSession

from isthmus.local import LocalCluster
from isthmus.model.pair import PairState
from tests.faults.proxy import Proxy
from tests.integration.cluster.hanging import trusting
from tests.integration.control.synchronous import begun, gateway, reached_through, run_beside

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
