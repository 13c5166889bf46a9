"""What the tests of groups share."""

from __future__ import annotations

import random
import secrets
from collections.abc import Iterator

import pytest

from isthmus.cluster.local import LocalCluster
from tests.integration.lane.mirror import Mirror


@pytest.fixture
def chance() -> random.Random:
    """Randomness whose seed is printed when the test fails."""
    seed = secrets.randbits(32)
    print(f"seed {seed}")  # noqa: T201  # pytest shows it with a failure only
    return random.Random(seed)


@pytest.fixture
def mirror(east: LocalCluster, west: LocalCluster) -> Mirror:
    """A mirror of records from east to west."""
    return Mirror(east, west)


@pytest.fixture(scope="session")
def secured() -> Iterator[LocalCluster]:
    """A cluster with an authorizer."""
    with LocalCluster.start("secured", brokers=1, heap_mb=256, secure=True) as cluster:
        yield cluster
