"""What is going on, for whoever watches: a bar on a terminal, else a line for whatever is new."""

from __future__ import annotations

import re
import time
from typing import Final, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

_NUMBERS: Final = re.compile(r"\d[\d,.]*")
_AROUND_S: Final = 90.0
"""What a run takes besides its minutes of faults: starting, ending, judging."""


class Shown:
    """Shows `runs` runs of so many minutes each. The bar is about time, of which nobody knows how much is needed."""

    def __init__(self, runs: int, minutes: float) -> None:
        self._console = Console(stderr=True, soft_wrap=True, highlight=False)
        self._run_s = minutes * 60 + _AROUND_S
        self._runs = runs
        self._number = 0
        self._begun = time.monotonic()
        self._said = ""
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            TimeElapsedColumn(),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._task = self._bar.add_task("", total=runs * self._run_s)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def begin(self) -> None:
        """The next run begins."""
        self._number += 1
        self._begun = time.monotonic()

    def note(self, text: str) -> None:
        """Something is going on."""
        told = f"run {self._number} of {self._runs}: {text}" if self._runs > 1 else text
        if self._console.is_terminal:
            done_s = (self._number - 1) * self._run_s + min(time.monotonic() - self._begun, self._run_s)
            self._bar.update(self._task, description=told, completed=done_s)
            return
        # Without a terminal a line that only counts on is said once.
        kind = _NUMBERS.sub("", told)
        if kind != self._said:
            self._said = kind
            self._console.print(told, markup=False)
