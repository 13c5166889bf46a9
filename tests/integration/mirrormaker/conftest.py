"""A flow between two clusters for each test."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from isthmus.local import LocalCluster
from testing.records.flows import Flow


@pytest.fixture
def flow(east: LocalCluster, west: LocalCluster, topic: Callable[[str], str]) -> Flow:
    """From `primary` to `backup`, under aliases and with topics that no other test has."""
    return Flow.between(east, west, topic("test-topic"))
