"""What MirrorConnectorsIntegrationExactlyOnceTest and its sibling for transactions ask (docs/mm2-conformance.md)."""

from __future__ import annotations

import asyncio
import random

import pytest
from pyspark.sql import SparkSession

import isthmus
from isthmus.model.offsets import OffsetPolicy
from testing.records import topics, transactions
from testing.records.flows import PARTITIONS, Flow, contents, create, produce, until_there
from testing.runs.running import configuration_of, running

pytestmark = pytest.mark.integration

COUNT = 300


@pytest.mark.parametrize("offsets", [OffsetPolicy.SAME, OffsetPolicy.MAPPED])
def test_replication(flow: Flow, spark: SparkSession, offsets: OffsetPolicy) -> None:
    """Runs that end in the middle of copying lose and double nothing. A target topic that is deleted gets all again."""
    create(flow.source, flow.stem)
    configuration = configuration_of(flow.link(offsets=offsets))

    async def scenario() -> None:
        async with running(configuration, spark) as run:
            await asyncio.to_thread(produce, flow.source, flow.stem, count=COUNT)
            await run.until(lambda: run.counts[-1:] > [0])
        await asyncio.to_thread(produce, flow.source, flow.stem, count=COUNT, begin=COUNT)
        for _ in range(2):
            async with running(configuration, spark) as run:
                await until_there(run, flow.target, flow.remote(flow.stem), [2 * COUNT] * PARTITIONS)
            expected = await asyncio.to_thread(contents, flow.source, flow.stem)
            assert await asyncio.to_thread(contents, flow.target, flow.remote(flow.stem)) == expected
            await asyncio.to_thread(topics.delete, flow.target.cluster, flow.remote(flow.stem))

    asyncio.run(scenario())


@pytest.mark.parametrize("offsets", [OffsetPolicy.SAME, OffsetPolicy.MAPPED])
def test_replication_of_transactions(
    flow: Flow, spark: SparkSession, chance: random.Random, offsets: OffsetPolicy
) -> None:
    """What transactional producers have committed is there once, and nothing of what they have aborted is seen."""
    create(flow.source, flow.stem)
    transactions.interleave(flow.source.cluster, flow.stem, chance, steps=40, partitions=PARTITIONS)
    configuration = configuration_of(flow.link(offsets=offsets))
    assert isthmus.open(configuration, spark=spark).run(until="caught-up").exit_code == 0
    assert contents(flow.target, flow.remote(flow.stem)) == contents(flow.source, flow.stem)
