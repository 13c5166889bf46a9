"""A configuration of MirrorMaker 2, imported and run: what it would have copied arrives, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import isthmus
from isthmus.cli.imports import import_
from isthmus.cluster.groups import committed_offsets
from isthmus.local import LocalCluster
from isthmus.wire.client import Client
from tests.integration.control.running import ends
from tests.integration.groups import consumers
from tests.integration.groups.test_carrying import records
from tests.integration.lane import oracle
from tests.integration.lane.topics import create, produce

pytestmark = pytest.mark.integration

MM2 = """\
clusters = east, west
east.bootstrap.servers = {east}
west.bootstrap.servers = {west}
east->west.enabled = true
east->west.topics = {stem}-[a-z]+, {stem}\\\\.v\\\\d
east->west.topics.exclude = .*-private
east->west.groups = {stem}-.*
sync.group.offsets.enabled = true
replication.factor = 1
"""


def test_an_imported_file_runs(
    east: LocalCluster, west: LocalCluster, topic: Callable[[str], str], spark: SparkSession, tmp_path: Path
) -> None:
    """Topics arrive under the names of MirrorMaker 2, groups at their positions; what it leaves out stays away."""
    stem = topic("imported")
    copied = [f"{stem}-orders", f"{stem}.v1"]
    left_out = [f"{stem}-private", f"{stem}-9", f"{stem}xv1"]
    for name in (*copied, *left_out):
        create(east, name)
        produce(east, name, records(50))
    consumers.commit(east, {f"{stem}-billing": {(copied[0], 0): 20}, f"other-{stem}": {(copied[0], 0): 30}})
    given, made = tmp_path / "mm2.properties", tmp_path / "isthmus.yaml"
    given.write_text(MM2.format(east=east.bootstrap_servers, west=west.bootstrap_servers, stem=stem))

    import_(given, to=made)
    with isthmus.open(made, spark=spark) as fabric:
        outcome = fabric.run(until="caught-up")

    assert (outcome.exit_code, outcome.is_caught_up) == (0, True)
    for name in copied:
        there = oracle.records(west.admin_bootstrap_servers, f"east.{name}")
        assert there == oracle.records(east.admin_bootstrap_servers, name)
    assert [asyncio.run(ends(west, f"east.{name}")) for name in left_out] == [[-1]] * 3
    assert asyncio.run(_position(west, f"{stem}-billing")) == {(f"east.{copied[0]}", 0): 20}
    assert asyncio.run(_position(west, f"other-{stem}")) == {}


async def _position(cluster: LocalCluster, group: str) -> dict[tuple[str, int], int]:
    async with Client(cluster.cluster()) as client:
        found = (await committed_offsets(client, [group], require_stable=True)).values
    return {key: position.offset for key, position in found.get(group, {}).items()}
