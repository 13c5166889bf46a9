"""Kafka's own MirrorClient and RemoteClusterUtils, asked by a small Java program, and its checkpoint connector."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from isthmus.local import LocalCluster
from isthmus.local.jvm import jvm_for
from isthmus.local.properties import as_text
from testing.patience import TERM_S

PROGRAM: Final = Path(__file__).with_name("MirrorAnswers.java")
IDENTITY: Final = "replication.policy.class=org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
_HEAP_MB: Final = 256


def answers(cluster: LocalCluster, *questions: str, properties: tuple[str, ...] = ()) -> list[set[str]]:
    """What MirrorClient of Kafka 4.3.1 says, one set of texts per question: `replicationHops east`, say.

    Positions are texts like `orders-0:17:metadata`, those of `translateGroups` like `billing@orders-0:17:metadata`.
    """
    jvm = jvm_for("mm2-4.3.1")
    given = [f"bootstrap.servers={cluster.admin_bootstrap_servers}", *properties]
    # The file is compiled by the launcher, for which the class path has to be an option.
    options = ["-cp", jvm.class_path]
    done = subprocess.run(
        jvm.command(str(PROGRAM), *given, "--", *questions, heap_mb=_HEAP_MB, options=options),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TERM_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == len(questions), done.stdout
    return [set(line.split()) for line in lines]


@contextmanager
def checkpoint_connector(
    source: LocalCluster, target: LocalCluster, topic: str, group: str, folder: Path, *, location: str = "target"
) -> Iterator[None]:
    """MirrorMaker 2's MirrorCheckpointConnector from a to b, alone: it goes by pairs of offsets at one side."""
    jvm = jvm_for("mm2-4.3.1")
    converter = "org.apache.kafka.connect.converters.ByteArrayConverter"
    worker = {
        "bootstrap.servers": target.admin_bootstrap_servers,
        "key.converter": converter,
        "value.converter": converter,
        "offset.storage.file.filename": str(folder / "offsets"),
        "listeners": "http://127.0.0.1:0",
    }
    connector = {
        "name": "checkpoints",
        "connector.class": "org.apache.kafka.connect.mirror.MirrorCheckpointConnector",
        "source.cluster.alias": "a",
        "target.cluster.alias": "b",
        "source.cluster.bootstrap.servers": source.admin_bootstrap_servers,
        "target.cluster.bootstrap.servers": target.admin_bootstrap_servers,
        "topics": topic,
        "groups": f"{group}.*",
        "offset-syncs.topic.location": location,
        "offset-syncs.topic.replication.factor": "1",
        "checkpoints.topic.replication.factor": "1",
        "emit.checkpoints.interval.seconds": "1",
        "refresh.groups.interval.seconds": "1",
    }
    files = []
    for name, properties in (("worker", worker), ("connector", connector)):
        files.append(folder / f"{name}.properties")
        files[-1].write_text(as_text(properties))
    command = jvm.command("org.apache.kafka.connect.cli.ConnectStandalone", *map(str, files), heap_mb=512)
    with (
        (folder / "connect.log").open("wb") as log,
        subprocess.Popen(command, env=jvm.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log) as connect,
    ):
        try:
            yield
        finally:
            connect.kill()
