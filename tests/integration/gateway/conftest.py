"""A mirror between the two shared clusters of one broker each."""

from __future__ import annotations

import pytest

from isthmus.local import LocalCluster
from testing.runs.mirror import Mirror


@pytest.fixture
def mirror(east: LocalCluster, west: LocalCluster) -> Mirror:
    """East to west, with producer ids of its own."""
    return Mirror(east, west)
