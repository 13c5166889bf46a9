"""What the tests of groups share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from isthmus.local import LocalCluster
from tests.integration.lane.mirror import Mirror


@pytest.fixture
def mirror(east: LocalCluster, west: LocalCluster) -> Mirror:
    """A mirror of records from east to west."""
    return Mirror(east, west)


@pytest.fixture(scope="session")
def secured() -> Iterator[LocalCluster]:
    """A cluster with an authorizer."""
    with LocalCluster.start("secured", brokers=1, heap_mb=256, secure=True) as cluster:
        yield cluster
