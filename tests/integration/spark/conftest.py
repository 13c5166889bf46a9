"""An embedded Spark for the tests of leases."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest
from pyspark.sql import SparkSession

from isthmus.model.configuration import SparkSettings
from isthmus.spark.session import session

SLOTS: Final = 4


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session with four task slots, shared by the tests of a module."""
    active = SparkSession.getActiveSession()
    if active is not None and active.sparkContext.defaultParallelism < SLOTS:
        active.stop()
    log = tmp_path_factory.mktemp("spark") / "spark.log"
    spark = session(SparkSettings(master=f"local[{SLOTS}]"), log=log)
    yield spark
    spark.stop()
