"""What Spark's UI and its REST API show of a run and of a verification."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

from isthmus.fabric.fabric import Fabric
from isthmus.local import LocalCluster
from testing.links.controllers import descriptions
from testing.records import topics
from testing.records.topics import Given
from testing.runs.running import configuration_of, link_of

pytestmark = pytest.mark.integration


def test_jobs_carry_readable_names(
    east: LocalCluster, west: LocalCluster, spark: SparkSession, topic: Callable[[str], str]
) -> None:
    """A lease is named by its link, its slot, its number and what it carries, a verification by its clusters."""
    name, link = topic("named"), topic("link")
    topics.create(east, name, partitions=3)
    topics.produce(east, name, [Given(b"k", b"v", [], topics.SEPTEMBER)] * 10)
    fabric = Fabric(configuration_of(link_of(east.cluster(), west.cluster(), name, name=link)), spark=spark)
    assert fabric.run(until="caught-up").records == 10
    assert fabric.verify()[link].equal

    found = descriptions(spark)
    copied = "the run has copied 0 records (0.0 MiB) before"
    assert {
        f"isthmus {link} lease 0.1: 2 partitions; {copied}",
        f"isthmus {link} lease 1.1: 1 partition; {copied}",
    } <= found
    assert "isthmus verify east to west: batches" in found
