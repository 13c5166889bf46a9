"""What a run needs of who copies, and the one who starts it again when it has ended."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, Protocol

from isthmus.local.process import Process
from soak.history import History

_LOOK_S: Final = 0.2
_AGAIN_S: Final = 1.0


class Mirror(Protocol):
    """A mirror as its users run it: processes with a configuration.

    `keeps_offsets` is what it claims; `is_mapped`, if that is not, whether it claims every record to be there once,
    and groups to be in the same place among them. `internal` are prefixes of topics of its own.
    """

    name: str
    keeps_offsets: bool
    is_mapped: bool
    internal: Sequence[str]

    def start(self, environment: Mapping[str, str]) -> None:
        """Start it, with more in its environment; the one before has ended."""

    def exit_code(self) -> int | None:
        """How it ended, `None` while it runs."""

    def processes(self) -> Mapping[int, str]:
        """What runs of it: process ids and command lines."""

    @property
    def pid(self) -> int:
        """The process that a service manager would know it by."""

    def kill(self) -> None:
        """End all of it at once, and whatever it has ever started."""

    def stop(self, term_s: float) -> None:
        """End it in good order, and by force if that takes longer."""


class Supervisor:
    """Starts a mirror, and starts it again whenever it has ended, as a service manager does."""

    def __init__(self, mirror: Mirror, history: History) -> None:
        self.mirror = mirror
        self.is_wanted = True
        self.environment: Mapping[str, str] = {}
        self.starts = 0
        self._history = history
        self._over = threading.Event()

    @contextmanager
    def keeping(self, term_s: float) -> Iterator[None]:
        """Keep it running; at the end it is stopped."""
        self._start()
        thread = threading.Thread(target=self._run, name="supervisor")
        thread.start()
        try:
            yield
            self._over.set()
            thread.join()
            self._history.tell("mirror", did="stopping")
            self.mirror.stop(term_s)
            self._history.tell("mirror", did="stopped", code=self.mirror.exit_code())
        finally:
            self._over.set()
            thread.join()
            self.mirror.kill()

    def signal_all(self, number: signal.Signals, chosen: Callable[[str], bool] = lambda _: True) -> list[Process]:
        """Signal the processes of the mirror whose command lines are chosen; returns them."""
        found = [Process.with_pid(pid) for pid, line in self.mirror.processes().items() if chosen(line)]
        reached = [process for process in found if process is not None]
        for process in reached:
            process.send(number)
        return reached

    def kill(self) -> None:
        """Kill the process that was started, and none that it started itself."""
        self._send(signal.SIGKILL)

    def terminate(self, number: signal.Signals) -> None:
        """Tell it to end."""
        self._send(number)

    def _send(self, number: signal.Signals) -> None:
        process = Process.with_pid(self.mirror.pid)
        if process is not None and self.mirror.exit_code() is None:
            self._history.tell("mirror", did="signalled", signal=number.name)
            process.send(number)

    def _start(self) -> None:
        self.mirror.start(self.environment)
        self.starts += 1
        self._history.tell("mirror", did="started", processes=len(self.mirror.processes()))

    def _run(self) -> None:
        while not self._over.wait(_LOOK_S):
            code = self.mirror.exit_code()
            if code is None:
                continue
            self._history.tell("mirror", did="ended", code=code)
            while not self.is_wanted and not self._over.is_set():
                self._over.wait(_LOOK_S)
            # What the one before left running is left: it has to end by itself.
            if not self._over.wait(_AGAIN_S):
                self._start()
