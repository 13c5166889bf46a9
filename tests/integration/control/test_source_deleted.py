"""A topic is deleted at the source while a link runs: it rests at the target, and nothing is in trouble."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import pytest
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from isthmus.control.fabric import Fabric
from isthmus.errors import ConfigError
from isthmus.local import LocalCluster
from isthmus.model.lane import LaneState
from tests.integration.control.running import configuration_of, ends, link_of, running
from tests.integration.groups.test_carrying import records
from tests.integration.lane import topics
from tests.patience import TERM_S

pytestmark = pytest.mark.integration


def test_a_deleted_topic_rests_and_is_forgotten(
    east: LocalCluster,
    west: LocalCluster,
    topic: Callable[[str], str],
    spark: SparkSession,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is told once, by the run and by `status` alike. What the source has cannot be forgotten; what it has no more
    can, while the link runs, and then nobody tells of it any more.
    """
    stem = topic("deleted")
    gone, stays = f"{stem}.gone", f"{stem}.stays"
    for name in (gone, stays):
        topics.create(east, name)
        topics.produce(east, name, records(20))
    link = link_of(east.cluster(), west.cluster(), f"{stem}.*", name=stem)
    configuration = configuration_of(link)
    fabric = Fabric(configuration)

    async def has_copied() -> bool:
        return await ends(west, gone) == await ends(west, stays) == [20]

    def told() -> LaneState | None:
        (found,) = fabric.status()
        return next((each.state for each in found.topics if each.topic == gone), None)

    async def is_told() -> bool:
        return await asyncio.to_thread(told) is LaneState.SOURCE_DELETED

    async def scenario() -> None:
        async with running(configuration, spark) as run:
            await run.until(has_copied)
            with pytest.raises(ConfigError, match="mirrors topic"):
                await asyncio.to_thread(fabric.forget, link.name, [gone])
            admin = AdminClient({"bootstrap.servers": east.admin_bootstrap_servers})
            await asyncio.to_thread(admin.delete_topics([gone])[gone].result, TERM_S)
            await run.until(lambda: run.state_of(gone) is LaneState.SOURCE_DELETED)
            await run.until(is_told)
            await run.until(lambda: not run.links[0].is_unfinished)
            assert await ends(west, gone) == [20]
            (forgotten,) = await asyncio.to_thread(fabric.forget, link.name, [gone])
            assert forgotten.topic == gone
            await run.until(lambda: run.topic(gone) is None)
            assert await asyncio.to_thread(told) is None
            assert (await run.end_well()).exit_code == 0

    with caplog.at_level(logging.WARNING):
        asyncio.run(scenario())
    assert sum(f"has {gone} no more" in line for line in caplog.messages) == 1
