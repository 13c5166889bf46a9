"""A configuration of MirrorMaker 2, imported and run: what it would have copied arrives, and nothing else."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import isthmus
from isthmus.cli.setup.imports import import_
from isthmus.kafka.client import Client
from isthmus.kafka.groups.groups import CommittedOffsets, committed_offsets
from isthmus.local import LocalCluster
from testing.groups import consumers
from testing.groups.carrying import records
from testing.records import oracle
from testing.records.topics import create, produce
from testing.runs.running import ends

pytestmark = pytest.mark.integration

MM2 = """\
clusters = east, west
east.bootstrap.servers = EAST
west.bootstrap.servers = WEST
east->west.enabled = true
east->west.topics = STEM-[a-z]+, STEM\\\\.v\\\\d
east->west.topics.exclude = .*-private
east->west.groups = STEM-.*
sync.group.offsets.enabled = true
replication.factor = 1
"""
CONNECTORS = """\
[
  {"name": "source", "config": {
    "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
    "source.cluster.alias": "east", "source.cluster.bootstrap.servers": "EAST",
    "target.cluster.alias": "west", "target.cluster.bootstrap.servers": "WEST",
    "topics": "STEM-[a-z]+, STEM\\\\.v\\\\d", "topics.exclude": ".*-private", "replication.factor": "1"}},
  {"name": "checkpoint", "config": {
    "connector.class": "org.apache.kafka.connect.mirror.MirrorCheckpointConnector",
    "source.cluster.alias": "east", "source.cluster.bootstrap.servers": "EAST",
    "target.cluster.alias": "west", "target.cluster.bootstrap.servers": "WEST",
    "groups": "STEM-.*", "sync.group.offsets.enabled": true, "emit.checkpoints.enabled": false}},
  {"name": "heartbeat", "config": {
    "connector.class": "org.apache.kafka.connect.mirror.MirrorHeartbeatConnector",
    "source.cluster.alias": "east", "source.cluster.bootstrap.servers": "EAST",
    "target.cluster.alias": "west", "target.cluster.bootstrap.servers": "WEST", "emit.heartbeats.enabled": false}}
]
"""
STRIMZI = """\
apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaMirrorMaker2
metadata: {name: mirror}
spec:
  connectCluster: west
  clusters:
  - {alias: east, bootstrapServers: "EAST"}
  - {alias: west, bootstrapServers: "WEST"}
  mirrors:
  - sourceCluster: east
    targetCluster: west
    sourceConnector: {config: {replication.factor: 1}}
    checkpointConnector: {config: {sync.group.offsets.enabled: true}}
    topicsPattern: 'STEM-[a-z]+|STEM\\.v\\d'
    topicsExcludePattern: '.*-private'
    groupsPattern: 'STEM-.*'
"""


@pytest.mark.parametrize(
    ("name", "text"), [("mm2.properties", MM2), ("connectors.json", CONNECTORS), ("mm2.yaml", STRIMZI)]
)
def test_an_imported_file_runs(
    east: LocalCluster,
    west: LocalCluster,
    topic: Callable[[str], str],
    spark: SparkSession,
    tmp_path: Path,
    name: str,
    text: str,
) -> None:
    """Topics arrive under the names of MirrorMaker 2, groups at their positions; what it leaves out stays away."""
    stem = topic("imported")
    copied = [f"{stem}-orders", f"{stem}.v1"]
    left_out = [f"{stem}-private", f"{stem}-9", f"{stem}xv1"]
    for each in (*copied, *left_out):
        create(east, each)
        produce(east, each, records(10))
    consumers.commit(east, {f"{stem}-billing": {(copied[0], 0): 4}, f"other-{stem}": {(copied[0], 0): 6}})
    given, made = tmp_path / name, tmp_path / "isthmus.yaml"
    for word, meant in (("EAST", east.bootstrap_servers), ("WEST", west.bootstrap_servers), ("STEM", stem)):
        text = text.replace(word, meant)
    given.write_text(text)

    import_(given, to=made)
    with isthmus.open(made, spark=spark, declared=False) as fabric:
        outcome = fabric.run(until="caught-up")

    assert (outcome.exit_code, outcome.is_caught_up) == (0, True)
    for each in copied:
        there = oracle.records(west.admin_bootstrap_servers, f"east.{each}")
        assert there == oracle.records(east.admin_bootstrap_servers, each)
    assert [asyncio.run(ends(west, f"east.{each}")) for each in left_out] == [[-1]] * 3
    assert asyncio.run(_position(west, f"{stem}-billing")) == {(f"east.{copied[0]}", 0): 4}
    assert asyncio.run(_position(west, f"other-{stem}")) == {}


def test_an_imported_login_is_used(
    east: LocalCluster, guarded: LocalCluster, topic: Callable[[str], str], spark: SparkSession, tmp_path: Path
) -> None:
    """A login by SCRAM and a trust store of Java's let the link into a cluster that asks for both; the password is in
    none of what was written but its own file.
    """
    name, store = topic("secured"), tmp_path / "trusted.jks"
    create(east, name)
    produce(east, name, records(10))
    trusting = ["keytool", "-importcert", "-noprompt", "-alias", "ca", "-file", str(guarded.credentials.ca_file)]
    subprocess.run([*trusting, "-keystore", store, "-storetype", "JKS", "-storepass", "changeit"], check=True)
    password = guarded.credentials.password("admin").reveal()
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    given, made = tmp_path / "mm2.properties", tmp_path / "isthmus.yaml"
    given.write_text(f"""\
clusters = east, guarded
east.bootstrap.servers = {east.bootstrap_servers}
guarded.bootstrap.servers = {guarded.bootstrap_servers}
guarded.security.protocol = SASL_SSL
guarded.sasl.mechanism = SCRAM-SHA-512
guarded.sasl.jaas.config = {module} required username="admin" password="{password}";
guarded.ssl.truststore.location = {store}
guarded.ssl.truststore.password = changeit
east->guarded.enabled = true
east->guarded.topics = {name}
emit.heartbeats.enabled = false
replication.factor = 1
""")

    import_(given, to=made)
    with isthmus.open(made, spark=spark, declared=False) as fabric:
        outcome = fabric.run(until="caught-up")

    assert (outcome.exit_code, outcome.is_caught_up) == (0, True)
    there = oracle.records(guarded.admin_bootstrap_servers, f"east.{name}")
    assert there == oracle.records(east.admin_bootstrap_servers, name)
    written = [each for each in tmp_path.rglob("*") if each.is_file() and each != given]
    (secret,) = (each for each in written if password.encode() in each.read_bytes())
    assert (secret.parent.name, secret.stat().st_mode & 0o077) == ("isthmus.secrets", 0)


async def _position(cluster: LocalCluster, group: str) -> dict[tuple[str, int], int]:
    async with Client(cluster.cluster()) as client:
        answers: CommittedOffsets[str] = await committed_offsets(client, [group], require_stable=True)
        found = answers.values
    return {key: position.offset for key, position in found.get(group, {}).items()}
