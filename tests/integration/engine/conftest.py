"""A mirror between the two shared clusters of one broker each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AclOperation

from isthmus.local import LocalCluster
from testing.brokers.acls import CLUSTER, deny
from testing.patience import UNFENCED
from testing.runs.mirror import Mirror


@pytest.fixture
def mirror(east: LocalCluster, west: LocalCluster) -> Mirror:
    """East to west, with producer ids of its own."""
    return Mirror(east, west)


@pytest.fixture(scope="session")
def guarded() -> Iterator[LocalCluster]:
    """A secured cluster that does not let Isthmus write transaction markers (CLUSTER ALTER)."""
    with LocalCluster.start("guarded", brokers=1, secure=True, heap_mb=256, properties=UNFENCED) as cluster:
        deny(cluster, *CLUSTER, AclOperation.ALTER)
        yield cluster
