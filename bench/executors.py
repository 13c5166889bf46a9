"""How copying grows with executors, and how soon lanes are where one has come, or no longer where one has gone.

    python -m bench.executors [--executors 1 --executors 2 ...] [--share 0.1] [--seconds 20] [--partitions 16]

Two single-broker clusters, a standalone Spark with workers of one core each, and `isthmus run` as its driver, all on
this host. On a host with few cores executors would share what a single one has for itself: so each worker, with its
executor and the Python in it, is held to a fixed share of a core, by the quota of a cgroup (CFS, with a period of 100
ms). The brokers and the driver are not. Executors start without the quota, as a JVM that starts would only be waited
for; they have it while something is measured. Records are copied one batch each, which costs Isthmus the most and
brokers the least.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL, Popen
from typing import Final

from confluent_kafka.admin import AdminClient
from rich import box
from rich.console import Console
from rich.table import Table

import isthmus
from bench.many import ends_of
from bench.pouring import Pour, pour
from bench.processes import cpu_s, tree
from isthmus.errors import IsthmusError
from isthmus.local import LocalCluster
from isthmus.model.process.leases import LeaseProgress
from testing.records import topics
from testing.runs.standalone import StandaloneSpark, standalone_spark

_GROUPS: Final = Path("/sys/fs/cgroup/cpu")
_PERIOD_US: Final = 100_000
_TERM_S: Final = 180.0
_LOOK_S: Final = 0.5
_LINK: Final = "bench"
_TOPIC: Final = "executors"
_COMMAND: Final = (sys.executable, "-c", "from isthmus.cli.entry import main; main()")


@dataclass(slots=True)
class Held:
    """An executor, as the worker that started it and all below that. It can be held to a share of a core."""

    pid: int
    folder: Path

    def hold(self, share: float | None) -> None:
        """Hold it to a share of a core, `None` for no limit."""
        quota_us = -1 if share is None else round(share * _PERIOD_US)
        (self.folder / "cpu.cfs_quota_us").write_text(str(quota_us))

    @property
    def cpu_s(self) -> float:
        return cpu_s(self.pid)

    def kill(self) -> None:
        """End all of it at once, as with its host."""
        for pid in [*tree(self.pid)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@dataclass(slots=True)
class Bed:
    """What runs while so many executors are measured."""

    spark: StandaloneSpark
    executors: list[Held]
    driver: Popen[bytes]
    file: Path
    target: LocalCluster
    partitions: int

    def leases(self) -> list[LeaseProgress]:
        """The leases that copy by now, as `isthmus status` shows them."""
        with contextlib.suppress(IsthmusError), isthmus.open(self.file) as fabric:
            return [lease for link in fabric.status() for lease in link.leases if lease.host and lease.partitions]
        return []

    def until(self, condition: Callable[[list[LeaseProgress]], bool]) -> float:
        """Wait until leases are so; return how long (s) that took.

        :raises SystemExit: They do not come to it.
        """
        begun = time.monotonic()
        while not condition(self.leases()):
            if time.monotonic() - begun > _TERM_S or self.driver.poll() is not None:
                raise SystemExit(f"still {self.leases()}, see {self.file.parent}")
            time.sleep(_LOOK_S)
        return time.monotonic() - begun

    def records(self) -> int:
        return asyncio.run(ends_of(self.target, {_TOPIC: self.partitions}))

    def measure(self, term_s: float) -> tuple[float, float]:
        """Return the records copied in a second, and the CPU seconds of all executors per million of them."""
        at, records, spent_s = time.monotonic(), self.records(), sum(each.cpu_s for each in self.executors)
        time.sleep(term_s)
        copied = self.records() - records
        used_s = sum(each.cpu_s for each in self.executors) - spent_s
        return copied / (time.monotonic() - at), used_s / max(copied, 1) * 1e6


def main() -> int:
    """Measure and print a table; 1 if the host does not let executors be held."""
    given = _arguments()
    if not os.access(_GROUPS / "cpu.cfs_quota_us", os.W_OK):
        sys.stderr.write(f"executors cannot be held to a share of a core: {_GROUPS} cannot be written\n")
        return 1
    table = Table(box=box.MARKDOWN, title=f"Executors of {given.share:g} of a core each")
    titles = ("executors", "records/s", "of linear", "CPU s per million", "busy", "one more, s", "one fewer, s")
    for title in titles:
        table.add_column(title, justify="right")
    alone = 0.0
    with (
        LocalCluster.start("executors-east", brokers=1, heap_mb=1024, fast_start=False) as east,
        LocalCluster.start("executors-west", brokers=1, heap_mb=1024, fast_start=False) as west,
    ):
        _fill(east, given.records, given.partitions)
        for count in given.executors or (1, 2, 4, 8):
            with _bed(east, west, count, given.partitions) as bed:
                rate, cost, busy = _measure(bed, count, given)
                alone = alone or rate / count
                row = [str(count), f"{rate:,.0f}", f"{rate / count / alone:.0%}", f"{cost:.2f}", f"{busy:.0%}"]
                row += _come_and_go(bed, count, given.share) if count in (given.moves or ()) else ["", ""]
            table.add_row(*row)
            sys.stderr.write(f"{' | '.join(row)} | load {os.getloadavg()[0]:.0f}\n")
            _drop(west)
    Console(width=140).print(table)
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.executors")
    parser.add_argument("--executors", type=int, action="append", help="how many, may be repeated (1, 2, 4 and 8)")
    parser.add_argument("--moves", type=int, action="append", help="with so many one more comes, and goes; repeatable")
    parser.add_argument("--share", type=float, default=0.1, help="of a core, for each executor")
    parser.add_argument("--seconds", type=float, default=20.0, help="for how long each is measured")
    parser.add_argument("--partitions", type=int, default=16)
    parser.add_argument("--records", type=int, default=8_000_000)
    return parser.parse_args()


def _measure(bed: Bed, count: int, given: argparse.Namespace) -> tuple[float, float, float]:
    """Return records/s, CPU seconds per million, and how busy the workers are on average."""
    bed.until(lambda leases: len(leases) == count)
    for executor in bed.executors:
        executor.hold(given.share)
    # Until workers tell nothing of the time without the quota.
    time.sleep(12.0)
    rate, cost = bed.measure(given.seconds)
    told = [lease.busy for lease in bed.leases() if lease.busy is not None]
    return rate, cost, sum(told) / max(len(told), 1)


def _come_and_go(bed: Bed, count: int, share: float) -> list[str]:
    """Return after how many seconds lanes are on one executor more, and on one fewer."""
    with _executor(bed.spark, count) as held:
        came_s = bed.until(lambda leases: len(leases) == count + 1)
        held.hold(share)
        homes = {key: lease.slot for lease in bed.leases() for key in lease.partitions}
        lost = {lease.slot for lease in bed.leases() if lease.pid in set(tree(held.pid))}
        held.kill()
        went_s = bed.until(lambda leases: len(leases) == count and _is_whole(leases, bed.partitions))
        stayed = [
            lease.slot == homes[key] for lease in bed.leases() for key in lease.partitions if homes[key] not in lost
        ]
        if not all(stayed):
            sys.stderr.write(f"{stayed.count(False)} of {len(stayed)} lanes moved that were not lost\n")
    return [f"{came_s:.0f}", f"{went_s:.0f}"]


def _is_whole(leases: Sequence[LeaseProgress], partitions: int) -> bool:
    return sum(len(lease.partitions) for lease in leases) == partitions


def _fill(source: LocalCluster, records: int, partitions: int) -> None:
    topics.create(source, _TOPIC, partitions=partitions)
    batches = records // partitions
    task = Pour(
        bootstrap_servers=source.bootstrap_servers,
        topic=_TOPIC,
        partitions=partitions,
        batches=batches,
        codec="none",
        batch_records=1,
    )
    asyncio.run(pour(task))


def _drop(target: LocalCluster) -> None:
    """Have the target begin anew: its topic, and what it knows of the link."""
    admin = AdminClient({"bootstrap.servers": target.bootstrap_servers})
    names = [name for name in admin.list_topics(timeout=30).topics if not name.startswith("__consumer")]
    for future in admin.delete_topics(names).values():
        future.result()
    while set(names) & admin.list_topics(timeout=30).topics.keys():
        time.sleep(_LOOK_S)


@contextmanager
def _bed(source: LocalCluster, target: LocalCluster, count: int, partitions: int) -> Iterator[Bed]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="isthmus-executors-")))
        spark = stack.enter_context(standalone_spark(folder, workers=0))
        executors = [stack.enter_context(_executor(spark, number)) for number in range(count)]
        file = folder / "isthmus.yaml"
        file.write_text(json.dumps(_configuration(source, target, spark)))
        log = stack.enter_context((folder / "run.log").open("wb"))
        environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
        command = [*_COMMAND, "run", "-c", str(file)]
        driver = Popen(command, env=environment, stdin=DEVNULL, stdout=log, stderr=log)
        stack.callback(_end, driver)
        yield Bed(spark, executors, driver, file, target, partitions)


def _configuration(source: LocalCluster, target: LocalCluster, spark: StandaloneSpark) -> dict[str, object]:
    clusters = {
        name: {"bootstrap_servers": each.bootstrap_servers} for name, each in (("east", source), ("west", target))
    }
    link = {"name": _LINK, "source": "east", "target": "west", "topics": {"include": [_TOPIC]}}
    return {"clusters": clusters, "links": [link], "spark": {"master": spark.master, "conf": spark.conf}}


@contextmanager
def _executor(spark: StandaloneSpark, number: int) -> Iterator[Held]:
    folder = _GROUPS / f"isthmus-bench-{os.getpid()}-{number}"
    folder.mkdir()
    (folder / "cpu.cfs_period_us").write_text(str(_PERIOD_US))
    held: Held | None = None
    try:
        with spark.worker() as pid:
            held = Held(pid, folder)
            # What it starts later belongs to it as well.
            for each in tree(pid):
                (folder / "cgroup.procs").write_text(str(each))
            try:
                yield held
            finally:
                held.hold(None)
    finally:
        _leave(folder)


def _leave(folder: Path) -> None:
    deadline = time.monotonic() + _TERM_S
    while (folder / "cgroup.procs").read_text().strip() and time.monotonic() < deadline:
        time.sleep(_LOOK_S)
    with contextlib.suppress(OSError):
        folder.rmdir()


def _end(driver: Popen[bytes]) -> None:
    driver.terminate()
    driver.wait(60)


if __name__ == "__main__":
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    sys.exit(main())
