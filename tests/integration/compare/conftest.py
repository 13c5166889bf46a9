"""A Spark session, and the two shared clusters with a faulty or a real mirror between them."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from isthmus.local import LocalCluster
from isthmus.model.configuration import SparkSettings
from isthmus.spark.session import session
from testing.records.pair import Pair
from testing.runs.mirror import Mirror


@pytest.fixture(scope="module")
def spark() -> SparkSession:
    """The session of this process, an embedded one with two slots if there is none yet."""
    return session(SparkSettings(master="local[2]"))


@pytest.fixture
def pair(spark: SparkSession, east: LocalCluster, west: LocalCluster) -> Pair:
    """East and west."""
    return Pair(spark, east, west)


@pytest.fixture
def mirror(east: LocalCluster, west: LocalCluster) -> Mirror:
    """A real mirror from east to west."""
    return Mirror(east, west)
