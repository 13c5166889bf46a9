"""An embedded Spark for the tests of whole runs, and clusters with authorizers."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from pyspark.sql import SparkSession

from isthmus.local import LocalCluster
from isthmus.model.configuration import SparkSettings
from isthmus.spark.session import session
from testing.patience import UNFENCED
from testing.runs.treeload import Clusters


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session with three task slots, shared by all tests of runs."""
    log = tmp_path_factory.mktemp("spark") / "spark.log"
    spark = session(SparkSettings(master="local[3]"), log=log)
    yield spark
    spark.stop()


@pytest.fixture
def signals() -> Iterator[None]:
    """A command takes over what signals do in its process, which here is that of the tests."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(scope="session")
def guarded() -> Iterator[LocalCluster]:
    """A target with an authorizer."""
    with LocalCluster.start("guarded", brokers=1, heap_mb=256, secure=True, properties=UNFENCED) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def four(east: LocalCluster, west: LocalCluster) -> Iterator[Clusters]:
    """Four clusters."""
    with ExitStack() as stack:
        more = {
            name: stack.enter_context(LocalCluster.start(name, brokers=1, heap_mb=256, properties=UNFENCED))
            for name in ("north", "south")
        }
        yield {"east": east, "west": west, **more}
