"""Two clusters of three brokers that tests break and that stand whole again afterwards."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Final

import pytest

from isthmus.local import LocalCluster
from testing.runs.mirror import Mirror

_LINES: Final = 60
"""So much of the log of each broker is printed."""


@pytest.fixture
def chance(request: pytest.FixtureRequest) -> random.Random:
    """Randomness from the seed a test is given as a parameter, else from a fixed one; printed when the test fails."""
    seed = getattr(request, "param", 1)
    print(f"seed {seed}")  # noqa: T201  # pytest shows it with a failure only
    return random.Random(seed)


@pytest.fixture
def mirror3(east3: LocalCluster, west3: LocalCluster) -> Iterator[Mirror]:
    """East to west, three brokers each; every broker runs again when the test is over.

    What brokers warned of is printed: pytest shows it with a failure only.
    """
    try:
        yield Mirror(east3, west3)
    finally:
        for cluster in (east3, west3):
            for broker in cluster.brokers:
                last = broker.log_file.read_text(errors="replace").splitlines()[-_LINES:]
                print(f"{broker!r}:", *last, sep="\n")  # noqa: T201
                broker.resume()
                broker.start(wait=False)
            cluster.wait_until_ready()
