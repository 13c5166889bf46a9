"""An embedded Spark for the tests of whole runs, and clusters with authorizers."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Final

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from isthmus.local import LocalCluster
from isthmus.model.configuration import SparkSettings
from isthmus.spark.session import session
from testing.patience import UNFENCED
from testing.runs.treeload import Clusters

SLOTS: Final = 3


@pytest.fixture(scope="session")
def spark_ended() -> Iterator[None]:
    """Behind the last test no Spark is left."""
    yield
    if (active := SparkContext._active_spark_context) is not None:
        active.stop()


@pytest.fixture(scope="module")
def spark(spark_ended: None, tmp_path_factory: pytest.TempPathFactory) -> SparkSession:
    """The session of this process, with three task slots or more. It serves all modules with tests of runs, unless
    a module with a session of its own has ended it.
    """
    active = SparkContext._active_spark_context
    if active is not None and active.defaultParallelism < SLOTS:
        active.stop()
    return session(SparkSettings(master=f"local[{SLOTS}]"), log=tmp_path_factory.mktemp("spark") / "spark.log")


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
