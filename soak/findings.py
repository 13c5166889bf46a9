"""What is looked for when a run is over, and told to the judge."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from isthmus.local.tools import kafka_tool
from soak.history import History
from soak.judge.dump import TOOL, Replica, batches
from soak.judge.evidence import Lane
from soak.judge.tee import Tee
from soak.side import Side

_TOOL_S: Final = 900.0
_SHOWN: Final = 5


def rereads(tee: Tee, lane: Lane, history: History) -> None:
    """Tell of records that were read once, and are others now."""
    offsets = tee.contradictions(lane)
    if offsets:
        history.tell("reread", topic=lane.topic, partition=lane.partition, count=len(offsets), offsets=offsets[:_SHOWN])


def leaks(folder: Path, secrets: Iterable[str], history: History) -> None:
    """Tell of passwords in what the mirror wrote."""
    for file in sorted(folder.glob("*.log")):
        text = file.read_text(errors="replace")
        if any(secret in text for secret in secrets):
            history.tell("leak", file=file.name)


def tracebacks(folder: Path, history: History) -> None:
    """Tell of tracebacks in what the mirror wrote."""
    for file in sorted(folder.glob("*.log")):
        _, found, rest = file.read_text(errors="replace").partition("Traceback (most recent call last)")
        if found:
            # What is logged is on one line, what ends a process on many.
            logged, *further = rest.splitlines() or [""]
            lines = [line for line in further if line and not line.startswith(" ")] or [""]
            said = logged.rpartition(" | ")[2] or lines[0]
            history.tell("traceback", file=file.name, said=said[:200])


def replicas_of(side: Side) -> dict[int, Replica]:
    """What Kafka's own tool reads off the disk of every broker."""
    found = {}
    for broker in side.cluster.brokers:
        files = sorted((broker.folder / "data").glob(f"{side.names.prefix}*/*.log"))
        if files:
            said = kafka_tool(TOOL, "--files", ",".join(map(str, files)), timeout_s=_TOOL_S)
            held = batches(said.stdout).items()
            found[broker.node_id] = {(side.names.at_source(topic), number): each for (topic, number), each in held}
    return found
