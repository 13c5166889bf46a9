"""How long it takes to promote a link of many partitions while it runs, and each step of it.

    python -m bench.promotion [--partitions 1000] [--topics 20] [--quiet-s 5]

Every partition has one record, and one group has a position in each. The link runs in a process of its own, as
`isthmus run` has it; the promotion is a command of its own too.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen, run
from typing import Final

import yaml
from confluent_kafka import Consumer, TopicPartition

from bench.many import ends_of, fill
from isthmus.fabric.fabric import Fabric, open_fabric
from isthmus.local import LocalCluster
from isthmus.model.configuration import Configuration
from isthmus.model.namespace import NamespaceMap

_HEAP_MB: Final = 768
_TERM_S: Final = 600.0
_LINK: Final = "bench"


def main() -> int:
    """Measure and print a line for each figure; 1 if it was not promoted."""
    given = _arguments()
    with (
        tempfile.TemporaryDirectory(prefix="isthmus-bench-") as folder,
        LocalCluster.start("east", brokers=1, heap_mb=_HEAP_MB) as east,
        LocalCluster.start("west", brokers=1, heap_mb=_HEAP_MB) as west,
    ):
        names = {f"bench.{number:03d}": given.partitions // given.topics for number in range(given.topics)}
        fill(east, names)
        _commit(east, names)
        clusters = {each.name: {"bootstrap_servers": each.bootstrap_servers} for each in (east, west)}
        file = Path(folder, "isthmus.yaml")
        file.write_text(yaml.safe_dump({"clusters": clusters}), encoding="utf-8")
        maps = [NamespaceMap.parse("bench."), NamespaceMap.parse("bench.", "group")]
        configuration = Configuration(clusters=(east.cluster(), west.cluster()), links=())
        Fabric(configuration).declarations.create(_LINK, source="east", target="west", maps=maps)
        isthmus = str(Path(sys.executable).with_name("isthmus"))
        with Popen([isthmus, "run", "-c", str(file)], stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL) as process:
            try:
                deadline = time.monotonic() + _TERM_S
                while asyncio.run(ends_of(west, names)) < sum(names.values()):
                    if process.poll() is not None or time.monotonic() > deadline:
                        _say("not everything was copied within", _TERM_S)
                        return 1
                    time.sleep(0.5)
                return _promoted(configuration, [isthmus, "link", "promote", _LINK], file, given.quiet_s)
            finally:
                process.terminate()


def _promoted(configuration: Configuration, command: list[str], file: Path, quiet_s: float) -> int:
    """Promote by the command, bring it back, and promote once more with the time of each step."""
    begun = time.monotonic()
    more = ["--yes", "--quiet", f"{quiet_s:g}s", "-c", str(file)]
    done = run([*command, *more], stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE, check=False, text=True)
    _say("isthmus link promote, as a command", time.monotonic() - begun)
    if done.returncode:
        print(done.stderr)  # noqa: T201
        return 1
    fabric = open_fabric(configuration, declared=True)
    fabric.declarations.reattach(_LINK)
    time.sleep(10.0)
    steps: list[tuple[float, str]] = []
    found = (
        fabric.link(_LINK)
        .promoter(quiet_s=quiet_s, timeout_s=_TERM_S, on_step=lambda what: steps.append((time.monotonic(), what)))
        .promote()
    )
    ended = time.monotonic()
    for (at, what), (after, _) in zip(steps, [*steps[1:], (ended, "")], strict=True):
        _say(what, after - at)
    _say(f"in all, {len(found.partitions)} partitions", ended - steps[0][0])
    return 0


def _commit(cluster: LocalCluster, names: dict[str, int]) -> None:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "bench.app"})
    offsets = [TopicPartition(name, partition, 1) for name, count in names.items() for partition in range(count)]
    consumer.commit(offsets=offsets, asynchronous=False)
    consumer.close()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.promotion")
    parser.add_argument("--partitions", type=int, default=1000)
    parser.add_argument("--topics", type=int, default=20)
    parser.add_argument("--quiet-s", type=float, default=5.0)
    return parser.parse_args()


def _say(what: str, seconds: float) -> None:
    print(f"{seconds:10.1f} s {what}", flush=True)  # noqa: T201


if __name__ == "__main__":
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    sys.exit(main())
