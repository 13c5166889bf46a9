"""Kafka's own MirrorClient and RemoteClusterUtils, asked by a small Java program."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Final

from isthmus.local import LocalCluster
from isthmus.local.jvm import jvm_for

PROGRAM: Final = Path(__file__).with_name("MirrorAnswers.java")
IDENTITY: Final = "replication.policy.class=org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
_HEAP_MB: Final = 256
_TERM_S: Final = 180.0


def answers(cluster: LocalCluster, *questions: str, properties: tuple[str, ...] = ()) -> list[set[str]]:
    """What MirrorClient of Kafka 4.3.1 says, one set of texts per question: `replicationHops east`, say.

    Positions are texts like `orders-0:17:metadata`.
    """
    jvm = jvm_for("mm2-4.3.1")
    given = [f"bootstrap.servers={cluster.admin_bootstrap_servers}", *properties]
    # The file is compiled by the launcher, for which the class path has to be an option.
    options = ["-cp", os.pathsep.join([jvm.class_path])]
    done = subprocess.run(
        jvm.command(str(PROGRAM), *given, "--", *questions, heap_mb=_HEAP_MB, options=options),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_TERM_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == len(questions), done.stdout
    return [set(line.split()) for line in lines]
