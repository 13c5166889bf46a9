"""The command `isthmus` as its users start it: a process, what it prints, and how it ends."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from isthmus.local import LocalCluster
from testing.patience import TERM_S
from testing.runs.forking import ForkedCommand

ROOT = Path(__file__).parents[2]
COMMAND = (sys.executable, "-c", "from isthmus.cli.entry import main; main()")


def start(*words: object, **options: Any) -> subprocess.Popen[Any]:
    """The command `isthmus` with these words, running; for the options see `ForkedCommand`."""
    return ForkedCommand([str(each) for each in words], **options)


def run(*words: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """The command `isthmus` with these words, once it has ended."""
    with start(*words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options) as command:
        try:
            stdout, stderr = command.communicate(timeout=TERM_S)
        finally:
            command.kill()
    return subprocess.CompletedProcess([*map(str, words)], command.returncode, stdout, stderr)


class Shell:
    """Runs `isthmus` with a configuration of one link, which has a name of its own."""

    def __init__(
        self,
        folder: Path,
        east: LocalCluster,
        west: LocalCluster,
        stem: str,
        *,
        python: str | None = None,
        **environment: str,
    ) -> None:
        self.stem = stem
        self.term_s: float = TERM_S
        self._python = python
        document: dict[str, Any] = {
            "clusters": {
                "east": {"bootstrap_servers": east.bootstrap_servers},
                "west": {"bootstrap_servers": west.bootstrap_servers},
            },
            "links": [{"name": stem, "source": "east", "target": "west", "topics": {"include": [f"{stem}.*"]}}],
            "spark": {"master": "local[2]"},
        }
        self._path = folder / "isthmus.yaml"
        self._document = document
        self.clusters, self.links = document["clusters"], document["links"]
        self._environment = {
            **os.environ,
            "ISTHMUS_CONFIG": str(self._path),
            "PYTHONPATH": str(ROOT / "src"),
            **environment,
        }
        self.configure()

    def configure(self, **sections: object) -> None:
        """Write the configuration, with these sections instead of its own."""
        self._path.write_text(yaml.safe_dump({**self._document, **sections}))

    def start(self, *arguments: str, stderr: int = subprocess.PIPE) -> subprocess.Popen[str]:
        """The command, running."""
        options: dict[str, Any] = {"env": self._environment, "stdout": subprocess.PIPE, "stderr": stderr, "text": True}
        if self._python is None:
            return start(*arguments, **options)
        return subprocess.Popen([self._python, *COMMAND[1:], *arguments], **options)

    def run(self, *arguments: str, code: int = 0) -> Any:
        """What the command prints as JSON; it ends with `code`."""
        with self.start(*arguments, "-o", "json") as command:
            said, told = command.communicate(timeout=self.term_s)
        assert command.returncode == code, told
        return json.loads(said) if said else None


def everything(seen: io.RawIOBase) -> bytes:
    """What a terminal shows until its last process has left."""
    shown = b""
    with contextlib.suppress(OSError):
        while part := seen.read(1 << 16):
            shown += part
    return shown


def children(pid: int) -> list[int]:
    """The processes the threads of a process have started: its JVM."""
    lists = Path(f"/proc/{pid}/task").glob("*/children")
    found: list[int] = []
    for file in lists:
        # A thread may have ended meanwhile.
        with contextlib.suppress(OSError):
            found += map(int, file.read_text().split())
    return found
