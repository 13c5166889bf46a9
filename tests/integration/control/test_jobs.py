"""What Spark's UI and its REST API show of a run and of a verification."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession

from isthmus.control.fabric import Fabric
from isthmus.local import LocalCluster
from tests.integration.control.running import configuration_of, link_of
from tests.integration.lane import topics
from tests.integration.lane.topics import Given

pytestmark = pytest.mark.integration


def descriptions(spark: SparkSession) -> set[str]:
    """What describes the jobs of an application, from the store behind the UI and the REST API."""
    context: Any = spark.sparkContext
    jobs = context._jsc.sc().statusStore().jobsList(None)
    return {jobs.apply(n).description().getOrElse(None) for n in range(jobs.size())}


def test_jobs_carry_readable_names(
    east: LocalCluster, west: LocalCluster, spark: SparkSession, topic: Callable[[str], str]
) -> None:
    """A lease is named by its link, its slot, its number and what it carries; a verification by its clusters."""
    name, link = topic("named"), topic("link")
    topics.create(east, name, partitions=3)
    topics.produce(east, name, [Given(b"k", b"v", [], topics.SEPTEMBER)] * 10)
    fabric = Fabric(configuration_of(link_of(east.cluster(), west.cluster(), name, name=link)), spark=spark)
    assert fabric.run(until="caught-up").records == 10
    assert fabric.verify()[link].equal

    found = descriptions(spark)
    assert {f"isthmus {link} slot 0 lease 1: 2 partitions", f"isthmus {link} slot 1 lease 1: 1 partition"} <= found
    assert "isthmus verify east to west: batches" in found
