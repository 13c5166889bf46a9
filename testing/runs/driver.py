"""`isthmus run` as a process of its own, and all that it started."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from isthmus.local import LocalCluster
from testing.patience import TERM_S, pause_s
from testing.runs.command import start

ROOT: Final = Path(__file__).parents[2]
_LOOK_S: Final = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """A command at work. It leads a session, so that whatever it started is found by that, wherever it ran off to."""

    process: subprocess.Popen[bytes]
    log: Path

    @property
    def said(self) -> str:
        """Everything it wrote so far."""
        return self.log.read_text()

    def interrupt(self) -> None:
        """Ctrl-C: a terminal sends it to all processes of the command."""
        os.killpg(self.process.pid, signal.SIGINT)

    def wait(self, *, term_s: float = TERM_S) -> int:
        """Its exit code, once it has ended."""
        try:
            return self.process.wait(term_s)
        except subprocess.TimeoutExpired as error:
            raise AssertionError(f"still running after {term_s} s: {self.said}") from error

    def family(self) -> dict[int, str]:
        """The processes it started and itself, as far as they run, with their command lines."""
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                if int(fields[3]) == self.process.pid and fields[0] != "Z":
                    found[int(folder.name)] = (folder / "cmdline").read_text().replace("\0", " ")
            except OSError:
                # It ended while we looked.
                continue
        return found

    def workers(self) -> list[int]:
        """The Python workers of Spark below it, and their daemon."""
        return [pid for pid, line in self.family().items() if "spark.daemon pyspark." in line]

    def heeds(self, number: signal.Signals) -> bool:
        """Whether it handles a signal; before its first line has run it is Python that is ended."""
        (caught,) = re.findall(r"^SigCgt:\s+(\w+)", Path(f"/proc/{self.process.pid}/status").read_text(), re.MULTILINE)
        return bool(int(caught, 16) >> (number - 1) & 1)

    def jvm(self) -> int:
        """The process of Spark's JVM, waited for."""
        self.wait_for(self._jvms)
        return self._jvms()[0]

    def _jvms(self) -> list[int]:
        return [pid for pid, line in self.family().items() if "SparkSubmit" in line]

    def wait_for(self, look: Callable[[], object], *, term_s: float = TERM_S) -> None:
        """Wait until `look` finds something; the command must not end meanwhile."""
        deadline, begun = time.monotonic() + term_s, time.monotonic()
        while not look():
            assert self.process.poll() is None, f"ended with {self.process.returncode}: {self.said}"
            assert time.monotonic() < deadline, f"still nothing after {term_s} s: {self.said}"
            time.sleep(pause_s(time.monotonic() - begun))
            begun = time.monotonic()

    def assert_alone(self) -> None:
        """Nothing that it started is left. A JVM that was starting sees that it is alone when it has started."""
        deadline = time.monotonic() + TERM_S
        while left := self.family():
            assert time.monotonic() < deadline, f"left running: {left}"
            time.sleep(_LOOK_S)

    def end(self) -> None:
        """End at once whatever is left."""
        while left := self.family():
            for pid in left:
                # It may have ended with the one before it.
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.process.wait()


def launch(*arguments: str, log: Path, **environment: str) -> Driver:
    """Run `isthmus`; call `end` when it is not needed any more."""
    found = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "COLUMNS": "200", **environment}
    with log.open("wb") as output:
        process = start(*arguments, env=found, stdout=output, stderr=output, start_new_session=True)
    return Driver(process=process, log=log)


@contextmanager
def started(*arguments: str, log: Path, **environment: str) -> Iterator[Driver]:
    """Run `isthmus`; whatever is left at the end is killed."""
    driver = launch(*arguments, log=log, **environment)
    try:
        yield driver
    finally:
        driver.end()


def configured(file: Path, source: LocalCluster, target: LocalCluster, *names: str, link: str, **settings: Any) -> Path:
    """Write a configuration of one link."""
    document = {
        "clusters": {
            "source": {"bootstrap_servers": source.admin_bootstrap_servers},
            "target": {"bootstrap_servers": target.admin_bootstrap_servers},
        },
        "links": [{"name": link, "source": "source", "target": "target", "topics": {"include": list(names)}}],
        **settings,
    }
    file.write_text(yaml.safe_dump(document))
    return file
