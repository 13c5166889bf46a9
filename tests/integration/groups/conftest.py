"""What the tests of groups share."""

from __future__ import annotations

import random
import secrets
from collections.abc import Iterator

import pytest

from isthmus.cluster.local import LocalCluster


@pytest.fixture
def chance() -> random.Random:
    """Randomness whose seed is printed when the test fails."""
    seed = secrets.randbits(32)
    print(f"seed {seed}")  # noqa: T201  # pytest shows it with a failure only
    return random.Random(seed)


@pytest.fixture(scope="session")
def secured() -> Iterator[LocalCluster]:
    """A cluster with an authorizer."""
    with LocalCluster.start("secured", brokers=1, heap_mb=256, secure=True) as cluster:
        yield cluster
