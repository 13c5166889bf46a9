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

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-c", "from isthmus.cli.app import main; main()"]


class Shell:
    """Runs `isthmus` with a configuration of one link, which has a name of its own."""

    def __init__(
        self,
        folder: Path,
        east: LocalCluster,
        west: LocalCluster,
        stem: str,
        *,
        python: str = sys.executable,
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
        self.links = document["links"]
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
        return subprocess.Popen(
            [self._python, *COMMAND[1:], *arguments],
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )

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
