"""What groups read again after a failover: Isthmus and MirrorMaker 2 asked about the same groups, by Kafka's own class.

    python -m bench.translation [RECORDS]

One partition of a cluster is copied into another one by each. Then groups commit at its end, and 1,000, 100,000 and a
million records behind, and RemoteClusterUtils says where they go on. MirrorMaker 2 has its defaults, but looks at
groups every 5 s. Behind a topic without gaps the exact place is the same offset.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from subprocess import DEVNULL, Popen
from typing import Final

from bench.mirrormaker import properties
from bench.pouring import Pour, pour
from isthmus import config
from isthmus.fabric.fabric import Fabric
from isthmus.kafka.client import Client
from isthmus.kafka.log.contents import stored_records
from isthmus.local import LocalCluster
from isthmus.local.jvm import jvm_for
from isthmus.model.configuration import Configuration
from isthmus.model.kafka.mirrormaker_records import checkpoint_of
from testing.groups import consumers
from testing.records import topics
from testing.runs.mirrorclient import answers
from testing.runs.running import ends

RECORDS: Final = 2_000_000
BEHIND: Final = (0, 1_000, 100_000, 1_000_000)
TOPIC: Final = "translated"
_REMOTE: Final = f"a.{TOPIC}"
_CHECKPOINTS: Final = "a.checkpoints.internal"
_BATCH_RECORDS: Final = 100
_TERM_S: Final = 900.0


def main() -> int:
    """Measure and print a table in Markdown; 0 when Isthmus has nothing read again."""
    batches = int(sys.argv[1]) // _BATCH_RECORDS if len(sys.argv) > 1 else RECORDS // _BATCH_RECORDS
    records = batches * _BATCH_RECORDS
    groups = {f"behind-{behind}": records - behind for behind in BEHIND if behind <= records}
    with (
        tempfile.TemporaryDirectory(prefix="isthmus-bench-") as folder,
        LocalCluster.start("a", brokers=1) as source,
        LocalCluster.start("b", brokers=1) as ours,
        LocalCluster.start("c", brokers=1) as theirs,
    ):
        topics.create(source, TOPIC)
        filling = Pour(
            bootstrap_servers=source.bootstrap_servers,
            topic=TOPIC,
            partitions=1,
            batches=batches,
            codec="lz4",
            batch_records=_BATCH_RECORDS,
        )
        asyncio.run(pour(filling))
        with _mirror_maker(filling, source, theirs, Path(folder)):
            _await(lambda: asyncio.run(ends(theirs, _REMOTE)) == [records], "MirrorMaker 2 did not copy all")
            consumers.commit(source, {group: {(TOPIC, 0): position} for group, position in groups.items()})
            _await(lambda: groups.keys() <= asyncio.run(_checkpointed(theirs)), "it did not write all checkpoints")
        with Fabric(_configuration(source, ours)) as fabric:
            fabric.run(until="caught-up")
        found = {name: _places(cluster, groups) for name, cluster in (("Isthmus", ours), ("MirrorMaker 2", theirs))}
    _print(records, groups, found)
    return int(found["Isthmus"] != groups)


def _configuration(source: LocalCluster, target: LocalCluster) -> Configuration:
    text = (
        f"clusters: {{a: {{bootstrap_servers: '{source.bootstrap_servers}'}}, "
        f"b: {{bootstrap_servers: '{target.bootstrap_servers}'}}}}\n"
        f"links: [{{name: ab, source: a, target: b, topics: {{include: [{TOPIC}], naming: mm2}}, "
        "groups: {include: ['behind-*']}, mm2: true}]"
    )
    return config.parse(text, environment={})


@contextmanager
def _mirror_maker(filling: Pour, source: LocalCluster, target: LocalCluster, folder: Path) -> Iterator[None]:
    jvm = jvm_for("mm2-4.3.1")
    file = folder / "mm2.properties"
    text = properties(filling, {"a": source.bootstrap_servers, "c": target.bootstrap_servers}, {})
    file.write_text(f"{text}\nrefresh.groups.interval.seconds=5\nemit.checkpoints.interval.seconds=5\n")
    command = jvm.command("org.apache.kafka.connect.mirror.MirrorMaker", str(file), heap_mb=1024, fast_start=False)
    with Popen(command, env=jvm.environment, stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL) as process:
        try:
            yield
        finally:
            process.kill()


async def _checkpointed(cluster: LocalCluster) -> set[str]:
    if _CHECKPOINTS not in topics.names(cluster):
        return set()
    async with Client(cluster.cluster()) as client:
        return {checkpoint_of(record).key.group async for record in stored_records(client, _CHECKPOINTS)}


def _places(cluster: LocalCluster, groups: Mapping[str, int]) -> dict[str, int]:
    """Where each group goes on, by RemoteClusterUtils."""
    found = answers(cluster, *(f"translateOffsets a {group}" for group in groups))
    return {group: int(next(iter(one)).split(":")[1]) for group, one in zip(groups, found, strict=True)}


def _await(is_done: Callable[[], bool], failure: str) -> None:
    deadline = time.monotonic() + _TERM_S
    while not is_done():
        if time.monotonic() > deadline:
            raise TimeoutError(failure)
        time.sleep(1.0)


def _print(records: int, groups: Mapping[str, int], found: Mapping[str, Mapping[str, int]]) -> None:
    lines = [f"| behind, of {records:,} | {' | '.join(f'{name} reads again' for name in found)} |", "|---|---|---|"]
    for group, position in groups.items():
        again = (f"{position - places[group]:,}" for places in found.values())
        lines.append(f"| {records - position:,} | {' | '.join(again)} |")
    print("\n".join(lines))  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
