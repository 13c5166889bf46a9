"""A program of ours that copies: processes that were started, one after another, and all that they started."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Mapping
from typing import Final

from testing.runs.driver import Driver

NOTHING: Final[Mapping[str, str]] = {}


class Program:
    """What `launch` starts is kept going; a mirror of which several may be started at once."""

    def __init__(self) -> None:
        self._drivers: list[Driver] = []

    def launch(self, label: str, *, environment: Mapping[str, str] = NOTHING) -> Driver:
        """Start it once more, which the caller has to end. It writes into `label`.log."""
        raise NotImplementedError

    def start(self, environment: Mapping[str, str]) -> None:
        self._drivers.append(self.launch(f"run-{len(self._drivers) + 1}", environment=environment))

    @property
    def driver(self) -> Driver:
        """The run that is kept going."""
        return self._drivers[-1]

    @property
    def pid(self) -> int:
        return self.driver.process.pid

    def exit_code(self) -> int | None:
        return self.driver.process.poll()

    def processes(self) -> Mapping[int, str]:
        return self.driver.family()

    def kill(self) -> None:
        for driver in self._drivers:
            driver.end()

    def stop(self, term_s: float) -> None:
        self.driver.process.send_signal(signal.SIGTERM)
        try:
            self.driver.process.wait(term_s)
        except subprocess.TimeoutExpired:
            self.kill()
