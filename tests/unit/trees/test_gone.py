"""A cluster of a tree is said to be gone for good, while others are not asked, or do not answer."""

from __future__ import annotations

import asyncio

import pytest

from isthmus import config
from isthmus.errors import ConfigError, PlanRefused, Unreachable
from testing.verbs import TreeChanges

# Nobody listens at these ports.
CHANGES = TreeChanges(
    config.parse(
        "clusters: {east: {bootstrap_servers: '127.0.0.1:1'}, west: {bootstrap_servers: '127.0.0.1:2'},"
        " north: {bootstrap_servers: '127.0.0.1:3'}}\n"
        "trees: [{name: t, clusters: [east, [west, north]], topics: [x]}]\n"
    )
)


def test_who_does_not_answer_is_asked_unless_it_is_said_to_be_gone() -> None:
    """It may copy to the cluster that leaves, and somebody has to know what became of the tree."""
    with pytest.raises(Unreachable, match=r"east .* whether it copies to north is not known") as away:
        asyncio.run(CHANGES.remove("t", "north", force=True, gone=["west"]))
    assert "--gone east" in away.value.hint
    with pytest.raises(PlanRefused, match="no cluster of tree t would be left that answers"):
        asyncio.run(CHANGES.remove("t", "north", force=True, gone=["west", "east"]))
    with pytest.raises(ConfigError, match="clusters that answer leave one by one"):
        asyncio.run(CHANGES.remove("t", "north", gone=["west"]))
