"""What every demonstration stands on: a folder that goes, clusters that end, and lines with the time."""

from __future__ import annotations

import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from rich.text import Text

from demo import topics
from isthmus.cli.output import console
from isthmus.local import LocalCluster
from isthmus.model.text.wording import format_count

HEAP_MB: Final = 384


class Stage:
    """Tells each step in a line on stderr. What it starts ends with `stack`."""

    def __init__(self, stack: ExitStack) -> None:
        self.folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="isthmus-demo-")))
        self._begun = time.monotonic()
        self._stack = stack
        self._is_fetching = False

    @property
    def elapsed_s(self) -> float:
        """Since it began."""
        return time.monotonic() - self._begun

    def cluster(self, name: str, brokers: int) -> LocalCluster:
        """Start a cluster, without waiting for it."""
        cluster = LocalCluster.start(
            name,
            brokers=brokers,
            heap_mb=HEAP_MB,
            data_dir=self.folder / name,
            properties=topics.BROKER_PROPERTIES,
            wait=False,
            progress=self._tell_fetching,
        )
        self._stack.callback(cluster.stop, wipe=True)
        return cluster

    def say(self, text: str) -> None:
        """Tell what is being done."""
        console.print(Text(f"{self.elapsed_s:5.1f} s  {text}"))

    def _tell_fetching(self, there: int, needed: int) -> None:
        if there < needed and not self._is_fetching:
            self._is_fetching = True
            self.say(f"fetching {format_count(needed, 'broker jar')}, this once")
