"""An embedded Spark for the tests of whole runs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from isthmus.model.configuration import SparkSettings
from isthmus.spark.session import session


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session with three task slots, shared by all tests of runs."""
    log = tmp_path_factory.mktemp("spark") / "spark.log"
    spark = session(SparkSettings(master="local[3]"), log=log)
    yield spark
    spark.stop()
