"""A verification as a process of its own, with a Spark of its own: it may take memory and time as it needs."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from isthmus.errors import HostError, IsthmusError, error_classes
from isthmus.model.links.verdict import Verification
from isthmus.web.operations import OnStep

_COMMAND: Final = (sys.executable, "-c", "from isthmus.cli.entry import main; main()")
_EQUAL: Final = 0
_DIFFERENT: Final = 4
_NOT_ALL_COMPARED: Final = 5
_TOLD_MAX: Final = 20
_LINE_BYTES_MAX: Final = 1 << 20
"""A message may name all topics of a link."""
_STEP_MAX: Final = 2000
_END_S: Final = 15.0
_ERROR: Final = re.compile(r"Error (ISTH-[A-Z-]+): (.*)")
_SUGGESTION: Final = re.compile(r"Suggestion: (.*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkVerification:
    """The arguments of a verification, in the words of `isthmus verify`."""

    file: Path
    link: str
    topics: Sequence[str] = ()
    since: str | None = None
    until: str | None = None
    allow_lag: bool = False

    @property
    def arguments(self) -> list[str]:
        """The command line."""
        found = [*_COMMAND, "verify", f"--config={self.file}", f"--link={self.link}", "--output=json"]
        found += [f"--topic={topic}" for topic in self.topics]
        found += [f"--{name}={value}" for name, value in (("since", self.since), ("until", self.until)) if value]
        return [*found, "--allow-lag"] if self.allow_lag else found

    async def run(self, on_step: OnStep) -> Verification:
        """Return whether both sides are equal, and the verdict; report the messages of the command as steps.

        :raises IsthmusError: As the command ended, with its code.
        """
        on_step("starting isthmus verify")
        code, output = await _run(self.arguments, on_step)
        return Verification(equal=code == _EQUAL, verdicts=json.loads(output))


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeVerification:
    """The arguments of a verification of a tree, in the words of `isthmus tree verify`."""

    file: Path
    tree: str
    topics: Sequence[str] = ()

    async def run(self, on_step: OnStep) -> dict[str, Any]:
        """Return the JSON form of the verdict; report the messages of the command as steps.

        :raises IsthmusError: As the command ended, with its code.
        """
        on_step("starting isthmus tree verify")
        arguments = [*_COMMAND, "tree", "verify", self.tree, f"--config={self.file}", "--output=json"]
        _, output = await _run([*arguments, *(f"--topic={topic}" for topic in self.topics)], on_step)
        verdict: dict[str, Any] = json.loads(output)
        return verdict


async def _run(arguments: Sequence[str], on_step: OnStep) -> tuple[int, bytes]:
    """Run the command; return the exit code, if it has a verdict, and the output."""
    environment = {**os.environ, "COLUMNS": "10000"}
    process = await asyncio.create_subprocess_exec(
        *arguments, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, env=environment, limit=_LINE_BYTES_MAX
    )
    messages: deque[str] = deque(maxlen=_TOLD_MAX)
    try:
        output, _ = await asyncio.gather(_all(process), _steps(process, messages, on_step))
        code = await process.wait()
    except BaseException:
        # Its result is not needed any more.
        await _terminate(process)
        raise
    if code not in (_EQUAL, _DIFFERENT) and not (code == _NOT_ALL_COMPARED and output):
        raise _failure(code, messages)
    return code, output


async def _all(process: Process) -> bytes:
    assert process.stdout is not None  # noqa: S101 - it is piped
    return await process.stdout.read()


async def _steps(process: Process, messages: deque[str], on_step: OnStep) -> None:
    assert process.stderr is not None  # noqa: S101 - it is piped
    while line := await process.stderr.readline():
        text = line.decode(errors="replace").rstrip()
        if text:
            messages.append(text)
            on_step(text[:_STEP_MAX])


async def _terminate(process: Process) -> None:
    """Ask the process to stop its Spark and end; if it does not, kill it."""
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
        try:
            async with asyncio.timeout(_END_S):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()


def _failure(code: int, messages: Sequence[str]) -> IsthmusError:
    hint, found = "", None
    for line in messages:
        found = _ERROR.fullmatch(line) or found
        suggestion = _SUGGESTION.fullmatch(line)
        hint = suggestion[1] if suggestion else hint
    if found is None:
        return HostError(f"isthmus verify ended with {code}", hint="The progress of the operation has its output.")
    for kind in error_classes():
        with contextlib.suppress(TypeError):
            if kind.error_code == found[1]:
                return kind(found[2], hint=hint)
    return HostError(f"{found[1]}: {found[2]}", hint=hint)
