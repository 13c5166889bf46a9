"""What the tests of groups share."""

from __future__ import annotations

import pytest

from isthmus.local import LocalCluster
from testing.runs.mirror import Mirror


@pytest.fixture
def mirror(east: LocalCluster, west: LocalCluster) -> Mirror:
    """A mirror of records from east to west."""
    return Mirror(east, west)
