"""The operator: gives the commands of docs/guide-recovery.md, one process each, as from a shell."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from isthmus.errors import HostError

_ISTHMUS: Final = str(Path(sys.executable).with_name("isthmus"))
_TERM_S: Final = 300.0
_END_S: Final = 20.0
_SHOWN: Final = 20


class Operator:
    """Gives commands in `folder`, where isthmus.yaml is. What runs in the background ends with `stack`."""

    def __init__(self, stack: ExitStack, folder: Path, say: Callable[[str], None]) -> None:
        self._stack = stack
        self._folder = folder
        self._say = say

    def gives(self, command: str) -> str:
        """What a command wrote to stdout.

        :raises HostError: It failed.
        """
        self._say(f"$ isthmus {command}")
        done = subprocess.run(
            [_ISTHMUS, *shlex.split(command)],
            cwd=self._folder,
            capture_output=True,
            text=True,
            timeout=_TERM_S,
            stdin=subprocess.DEVNULL,
        )
        if done.returncode:
            raise HostError(f"isthmus {command} ended with {done.returncode}", hint=done.stderr.strip()[-2_000:])
        return done.stdout

    def asks(self, command: str) -> Any:
        """What a command says with `-o json`."""
        return json.loads(self.gives(f"{command} -o json"))

    def runs(self, command: str) -> None:
        """Have a command go on in the background."""
        self._say(f"$ isthmus {command} &")
        log = self._stack.enter_context((self._folder / "run.log").open("w"))
        process = subprocess.Popen(
            [_ISTHMUS, *shlex.split(command)],
            cwd=self._folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        self._stack.callback(self._end, process)

    def last_words(self) -> str:
        """The last lines of what runs in the background."""
        return "\n".join((self._folder / "run.log").read_text().splitlines()[-_SHOWN:])

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        process.terminate()
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
