"""A Spark cluster of real processes on loopback: a master and two workers, from a wheel of pyspark."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

import pyspark
from pyspark import SparkContext

import isthmus
from isthmus.local.java import find_java
from isthmus.local.ports import free_ports
from isthmus.spark.session import QUICK_JVM

HOST: Final = "127.0.0.1"
WORKERS: Final = 2
_START_S: Final = 180.0
_SPARK_HOME: Final = Path(pyspark.__file__).parent
# What our image runs in every container.
ENTRYPOINT: Final = Path(__file__).parents[2] / "deploy" / "container" / "entrypoint.sh"


class StandaloneSpark:
    """Where the master listens, and the conf an application needs to be on its own on this host."""

    def __init__(
        self, master: str, folder: Path, daemon: Callable[[str, list[str], Path], AbstractContextManager[int]]
    ) -> None:
        self._daemon = daemon
        self.master = master
        self._workers = 0
        driver, blocks = free_ports(2)
        self.conf = {
            "spark.driver.bindAddress": HOST,
            "spark.driver.host": HOST,
            "spark.driver.port": str(driver),
            "spark.blockManager.port": str(blocks),
            "spark.port.maxRetries": "50",
            "spark.executor.memory": "512m",
            "spark.executor.cores": "1",
            "spark.executor.extraJavaOptions": QUICK_JVM,
            "spark.executorEnv.PYTHONPATH": str(Path(isthmus.__file__).parents[1]),
        }
        self.folder = folder

    @contextmanager
    def worker(self) -> Iterator[int]:
        """A worker with one core while the block lasts, and what it executes; its pid."""
        number, self._workers = self._workers, self._workers + 1
        port, webui = free_ports(2)
        arguments = ["--host", HOST, "--port", str(port), "--webui-port", str(webui)]
        arguments += [
            "--cores",
            "1",
            "--memory",
            "600m",
            "--work-dir",
            str(self.folder / f"work-{number}"),
            self.master,
        ]
        name = "org.apache.spark.deploy.worker.Worker"
        with self._daemon(name, arguments, self.folder / f"worker-{number}.log") as pid:
            yield pid

    @contextmanager
    def pod(self, context: SparkContext) -> Iterator[None]:
        """While the block lasts, one executor more, started as Spark starts our image in a pod of Kubernetes."""
        java = find_java().executable.resolve().parent
        options = shlex.split(str(context.getConf().get("spark.executor.extraJavaOptions")))
        environment = {
            "PATH": f"{java}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": self.conf["spark.executorEnv.PYTHONPATH"],
            "SPARK_DRIVER_URL": f"spark://CoarseGrainedScheduler@{HOST}:{context.getConf().get('spark.driver.port')}",
            "SPARK_EXECUTOR_ID": "71",
            "SPARK_EXECUTOR_CORES": "1",
            "SPARK_EXECUTOR_MEMORY": "512m",
            "SPARK_APPLICATION_ID": str(context.applicationId),
            "SPARK_CONF_DIR": str(self.folder),
            "SPARK_RESOURCE_PROFILE_ID": "0",
            "SPARK_EXECUTOR_POD_IP": HOST,
            "SPARK_EXECUTOR_POD_NAME": "isthmus-exec-71",
            **{f"SPARK_JAVA_OPT_{number}": option for number, option in enumerate(options)},
        }
        with _process([str(ENTRYPOINT), "executor"], environment, self.folder / "pod.log"):
            yield


@contextmanager
def standalone_spark(
    folder: Path, *, workers: int = WORKERS, home: Path = _SPARK_HOME, python: str = sys.executable
) -> Iterator[StandaloneSpark]:
    """Start it, wait until all workers have registered, and end every process of it.

    `home` is the folder of another Spark than that of the tests, and `python` what its executors run.
    """
    port, webui = free_ports(2)
    daemon = partial(_daemon, home, python)
    with ExitStack() as running:
        arguments = ["--host", HOST, "--port", str(port), "--webui-port", str(webui)]
        running.enter_context(daemon("org.apache.spark.deploy.master.Master", arguments, folder / "master.log"))
        cluster = StandaloneSpark(_await_master(folder / "master.log"), folder, daemon)
        for _ in range(workers):
            running.enter_context(cluster.worker())
        _await_workers(folder / "master.log", workers)
        yield cluster


@contextmanager
def _daemon(home: Path, python: str, name: str, arguments: list[str], log: Path) -> Iterator[int]:
    java = find_java()
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "JAVA_HOME": str(java.executable.resolve().parent.parent),
        "SPARK_LOCAL_IP": HOST,
        "SPARK_DAEMON_MEMORY": "192m",
        "SPARK_DAEMON_JAVA_OPTS": QUICK_JVM,
        "SPARK_LAUNCHER_OPTS": QUICK_JVM,
        "PYSPARK_PYTHON": python,
    }
    with _process([str(home / "bin" / "spark-class"), name, *arguments], environment, log) as pid:
        yield pid


@contextmanager
def _process(command: list[str], environment: dict[str, str], log: Path) -> Iterator[int]:
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            # So that executors, its children, can be told from others.
            start_new_session=True,
        )
    try:
        yield process.pid
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        # An executor that was being launched would go on without its worker.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _await_master(log: Path) -> str:
    """Where it listens: where the port was taken meanwhile, Spark takes the next."""
    deadline = time.monotonic() + _START_S
    while True:
        text = log.read_text(errors="replace")
        if (found := re.search(r"Starting Spark master at (\S+)", text)) and "New state: ALIVE" in text:
            return found[1]
        assert time.monotonic() < deadline, text[-2000:]
        time.sleep(0.1)


def _await_workers(log: Path, workers: int) -> None:
    deadline = time.monotonic() + _START_S
    while log.read_text(errors="replace").count("Registering worker") < workers:
        assert time.monotonic() < deadline, log.read_text(errors="replace")[-2000:]
        time.sleep(0.1)
