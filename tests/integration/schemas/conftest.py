"""Two real schema registries, shared by all tests here: give every subject a name of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from isthmus.local.apicurio import ApicurioServer
from isthmus.model.configuration import SparkSettings
from isthmus.spark.session import session


@pytest.fixture(scope="session")
def east_registry() -> Iterator[ApicurioServer]:
    """The registry that people write to."""
    with ApicurioServer.start() as server:
        yield server


@pytest.fixture(scope="session")
def west_registry(east_registry: ApicurioServer) -> Iterator[ApicurioServer]:
    """Another one, which nobody writes to but us.

    It ends with the first: one that began anew would give ids that are taken here.
    """
    with ApicurioServer.start() as server:
        yield server


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session for the tests of whole runs."""
    spark = session(SparkSettings(master="local[2]"), log=tmp_path_factory.mktemp("spark") / "spark.log")
    yield spark
    spark.stop()
