"""Leases in a Spark application of somebody else's, with somebody else's settings."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

import isthmus
from isthmus.engine.batches.rebatch import Record
from isthmus.engine.mapped.transformer import Portion
from isthmus.local import LocalCluster
from isthmus.model.configuration import SparkSettings
from isthmus.model.links.transform import Decoding, RecordFormat, RecordPart, RecordPath, Transform
from isthmus.spark.formats.decoding import Prepared
from isthmus.spark.session import adopt_session, session, stop
from isthmus.spark.transforms.trial import try_expressions
from testing.records import oracle, topics
from testing.records.traffic import traffic
from testing.runs.processes import kill, python_workers
from tests.integration.spark.controlled import controlled

pytestmark = pytest.mark.integration
Names = Callable[[str], str]


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    """An application that tries failed tasks three times, as Spark does where nobody says otherwise."""
    active = SparkSession.getActiveSession()
    if active is not None:
        active.stop()
    with pytest.MonkeyPatch.context() as patch:
        paths = [str(Path(isthmus.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
        patch.setenv("PYTHONPATH", os.pathsep.join(path for path in paths if path))
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        conf: dict[str, bool | float | int | str | None] = {
            "spark.ui.enabled": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.log.level": "OFF",
        }
        spark = SparkSession.builder.master("local[3,3]").config(map=conf).getOrCreate()
        yield spark
        spark.stop()


def test_it_goes_on_when_links_end(spark: SparkSession) -> None:
    """It is found from the thread in which Isthmus begins, whoever made it and where; and it is not stopped."""
    with ThreadPoolExecutor(1) as threads:
        found = threads.submit(session, SparkSettings()).result()
    assert found.sparkContext is spark.sparkContext
    stop(found)
    assert spark.range(3).count() == 3


def test_a_trial_of_expressions_leaves_the_session_of_a_notebook_active(spark: SparkSession) -> None:
    """Its own session has other settings, which queries of the notebook would get from then on."""
    spark.conf.set("notebook.own", "yes")
    lane = SimpleNamespace(source_topic="orders", partition=0)
    portion = Portion(cast(Any, lane), [Record(3, topics.SEPTEMBER, b"k", b'{"a": 1}', [])], [False])
    transform = Transform(
        value=Decoding(format=RecordFormat.JSON),
        where="value.a = 1 AND value.b IS NULL",
        drop=(RecordPath(RecordPart.HEADERS, ("h",)),),
    )

    tried = try_expressions(spark, Prepared(transform), [portion], {})

    assert tried.outcomes == [portion.records]
    assert [str(path) for path in tried.unfound] == ["value.b", "headers.h"]
    active = SparkSession.getActiveSession()
    assert active is not None
    assert active.conf.get("notebook.own") == "yes"


def test_a_task_that_spark_tries_again_does_not_write(
    spark: SparkSession, east: LocalCluster, west: LocalCluster, topic: Names
) -> None:
    """The second attempt returns at once, and a lease of which nobody knows how it was lost is waited out."""
    orders = topic("orders")
    topics.create_both(east, west, orders)

    async def scenario() -> None:
        async with controlled(adopt_session(spark, SparkSettings()), east, west, topic("link")) as link:
            await link.assign(orders)
            with traffic(east, orders):
                await link.until_records(100)
                kill(python_workers())
                await link.until(lambda: link.scheduler.problem is not None)
                assert "tried its task again" in str(link.scheduler.problem)
                await link.until_records(link.records + 500)
            await link.until_copied(orders)

    asyncio.run(scenario())
    oracle.assert_same(east, west, orders)
