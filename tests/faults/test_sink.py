"""A query that writes into a sink is killed at each step of a micro-batch, and goes on: every row once."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from isthmus.local import LocalCluster
from testing.brokers.holding import END_TXN, INIT_PRODUCER_ID, PRODUCE, Hold, HoldingProxy, behind_holds
from testing.patience import TERM_S
from testing.records import oracle, topics
from testing.runs.command import ROOT
from testing.runs.driver import Driver

pytestmark = [pytest.mark.integration, pytest.mark.faults]

TopicNamer = Callable[[str], str]
BATCHES: Final = 3
TASKS: Final = 2
ROWS: Final = 50
PARTITIONS: Final = 3
COMPLETE: Final = b'"is_complete":true'
SEALED: Final = b'"task":-1'

STEPS: Final[dict[str, Callable[[HoldingProxy], Hold]]] = {
    "before anything is written": lambda proxy: proxy.hold(INIT_PRODUCER_ID, nth=TASKS + 1),
    "behind the rows, before a position": lambda proxy: proxy.hold(PRODUCE, nth=TASKS + 2, contents=COMPLETE),
    "behind the first position": lambda proxy: proxy.hold(PRODUCE, nth=TASKS + 3, contents=COMPLETE),
    "behind all positions": lambda proxy: proxy.hold(END_TXN, nth=TASKS + 1),
    "in the first commit": lambda proxy: proxy.hold(END_TXN, nth=TASKS + 1, is_answer=True),
    "between two commits": lambda proxy: proxy.hold(END_TXN, nth=TASKS + 2),
    "before the seal": lambda proxy: proxy.hold(PRODUCE, nth=2, contents=SEALED),
    "before Spark's own commit": lambda proxy: proxy.hold(PRODUCE, nth=2, contents=SEALED, is_answer=True),
}
"""All in the second batch: each has so many tasks, with a transaction and a complete position each, and a seal."""


class SinkProgram:
    """A program of its own that writes files of a folder into a topic, behind the proxy or not."""

    def __init__(self, cluster: LocalCluster, servers: str, folder: Path, topic: str) -> None:
        self.cluster, self.folder, self.topic = cluster, folder, topic
        self._config = folder / "isthmus.yaml"
        self._config.write_text(f"clusters: {{west: {{bootstrap_servers: {servers!r}}}}}\n")
        topics.create(cluster, topic, partitions=PARTITIONS)
        self._files = 0
        (folder / "input").mkdir()
        self.add(BATCHES)

    def add(self, batches: int) -> None:
        """Files for so many batches more. Their times say in which order Spark takes them."""
        for _ in range(batches * TASKS):
            path = self.folder / "input" / f"{self._files}.json"
            path.write_text("\n".join(json.dumps({"value": f"{self._files}-{n}"}) for n in range(ROWS)))
            os.utime(path, (1_700_000_000 + self._files,) * 2)
            self._files += 1

    @contextmanager
    def running(self, *, master: str = "local[2]", **options: str) -> Iterator[Driver]:
        """The program; whatever is left of it at the end is killed."""
        arguments = [str(self._config), self.topic, str(self.folder), master]
        arguments += [f"{name}={value}" for name, value in options.items()]
        log = self.folder / f"driver-{time.monotonic_ns()}.log"
        environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.faults.sinking", *arguments],
                cwd=ROOT,
                env=environment,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        driver = Driver(process=process, log=log)
        try:
            yield driver
        finally:
            driver.end()

    def run(self, *, master: str = "local[2]", code: int = 0, **options: str) -> str:
        """Run it to its end; what it has said."""
        with self.running(master=master, **options) as driver:
            assert driver.wait() == code, driver.said
            return driver.said

    def kill_at(self, hold: Hold, *, whom: Callable[[Driver], int] = lambda driver: driver.process.pid) -> None:
        """Run it, and kill one of its processes once a request is held."""
        with self.running() as driver:
            driver.wait_for(lambda: hold.is_reached)
            os.kill(whom(driver), signal.SIGKILL)
            driver.process.wait(TERM_S)
            driver.assert_alone()

    def assert_all_once(self) -> None:
        """A consumer at read_committed gets each row once, and those of a file in their order."""
        found = oracle.records(self.cluster.bootstrap_servers, self.topic, partitions=PARTITIONS)
        values = [[(record.value or b"").decode() for record in part] for part in found]
        expected = [f"{file}-{n}" for file in range(self._files) for n in range(ROWS)]
        assert sorted(value for part in values for value in part) == sorted(expected)
        for part in values:
            for file in range(self._files):
                numbers = [int(value.split("-")[1]) for value in part if value.startswith(f"{file}-")]
                assert numbers == sorted(numbers)

    def visible(self) -> int:
        found = oracle.records(self.cluster.bootstrap_servers, self.topic, partitions=PARTITIONS)
        return sum(map(len, found))


@pytest.fixture(scope="module")
def held() -> Iterator[tuple[LocalCluster, HoldingProxy, str]]:
    """A cluster of one broker, behind a proxy that can stop requests."""
    with behind_holds("held") as found:
        yield found


@pytest.fixture
def program(held: tuple[LocalCluster, HoldingProxy, str], tmp_path: Path, topic: TopicNamer) -> SinkProgram:
    cluster, _, servers = held
    return SinkProgram(cluster, servers, tmp_path, topic("sink"))


@pytest.mark.parametrize("step", STEPS)
def test_a_killed_driver_goes_on(step: str, held: tuple[LocalCluster, HoldingProxy, str], program: SinkProgram) -> None:
    """Wherever it was in a micro-batch, the query continues from its checkpoint, and no row is lost or twice."""
    hold = STEPS[step](held[1])
    program.kill_at(hold)
    hold.release()
    program.run()
    program.assert_all_once()
    program.add(1)
    program.run()
    program.assert_all_once()


def test_a_late_commit_of_a_killed_driver_does_nothing(
    held: tuple[LocalCluster, HoldingProxy, str], program: SinkProgram
) -> None:
    """What was on its way when the driver was killed arrives when the query has long gone on."""
    hold = STEPS["between two commits"](held[1])
    program.kill_at(hold)
    program.run()
    hold.release()
    program.assert_all_once()
    program.add(1)
    program.run()
    program.assert_all_once()


def test_a_killed_python_worker_is_replaced(held: tuple[LocalCluster, HoldingProxy, str], program: SinkProgram) -> None:
    """Spark tries the task again, and the rows of the attempt before are not there."""
    hold = STEPS["behind the rows, before a position"](held[1])
    with program.running(master="local[2,4]") as driver:
        driver.wait_for(lambda: hold.is_reached)
        # The daemon from which workers are forked goes on, as do the workers of the driver.
        daemon, *workers = sorted(pid for pid, line in driver.family().items() if "pyspark.worker" in line)
        assert workers, daemon
        for pid in workers:
            os.kill(pid, signal.SIGKILL)
        hold.release()
        assert driver.wait() == 0, driver.said
    program.assert_all_once()


def test_another_number_of_tasks_completes_no_epoch_of_another_run(
    held: tuple[LocalCluster, HoldingProxy, str], program: SinkProgram
) -> None:
    """One that is committed in part is refused, without a row more; with the same number as before it is completed."""
    hold = STEPS["between two commits"](held[1])
    program.kill_at(hold)
    hold.release()
    before = program.visible()
    said = program.run(master="local[1]", code=1)
    assert "same number of partitions as before" in said
    assert program.visible() == before
    program.run()
    program.assert_all_once()


def test_another_number_of_tasks_begins_an_epoch_anew(
    held: tuple[LocalCluster, HoldingProxy, str], program: SinkProgram
) -> None:
    """If nothing of it was committed, the tasks of the run before do not matter."""
    hold = STEPS["behind all positions"](held[1])
    program.kill_at(hold)
    program.run(master="local[1]")
    hold.release()
    program.assert_all_once()


def test_another_number_of_tasks_repeats_a_whole_epoch(
    held: tuple[LocalCluster, HoldingProxy, str], program: SinkProgram
) -> None:
    """One that is committed, but not in Spark's checkpoint, is compared as a whole."""
    hold = STEPS["before Spark's own commit"](held[1])
    program.kill_at(hold)
    hold.release()
    program.run(master="local[1]")
    program.assert_all_once()


def test_a_copied_checkpoint_is_refused(held: tuple[LocalCluster, HoldingProxy, str], program: SinkProgram) -> None:
    """A checkpoint that was restored from an older copy writes nothing."""
    program.run()
    shutil.copytree(program.folder / "checkpoint", program.folder / "kept")
    program.add(2)
    program.run()
    shutil.rmtree(program.folder / "checkpoint")
    (program.folder / "kept").rename(program.folder / "checkpoint")

    said = program.run(code=1)
    assert "older copy of its checkpoint" in said
    program.assert_all_once()


def test_a_broker_is_killed_in_the_middle(west3: LocalCluster, tmp_path: Path, topic: TopicNamer) -> None:
    """The leader of a partition dies while rows are written, and comes back: every row once."""
    program = SinkProgram(west3, west3.bootstrap_servers, tmp_path, topic("sink"))
    program.add(6)
    broker = west3.brokers[0]
    with program.running() as driver:
        driver.wait_for(lambda: program.visible() > 0)
        broker.kill()
        time.sleep(1)
        broker.start()
        assert driver.wait() == 0, driver.said
    west3.wait_until_ready()
    program.assert_all_once()
