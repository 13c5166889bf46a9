"""The process that verifies, whatever it says and however it ends."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from isthmus.errors import GateNotMet, Unreachable
from isthmus.web.routes import verifying
from isthmus.web.routes.verifying import LinkVerification, TreeVerification

VERIFICATION = LinkVerification(file=Path("isthmus.yaml"), link="east-west")
ENDLESS = "import os, sys, time; print(os.getpid(), file=sys.stderr, flush=True); time.sleep(3600)"


def command(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """Have this program be what verifies."""
    monkeypatch.setattr(verifying, "_COMMAND", (sys.executable, "-c", code))


def test_a_message_may_be_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is told whole, and a step as far as somebody reads it."""
    command(monkeypatch, "import sys; sys.stderr.write('Error ISTH-UNREACHABLE: ' + 't' * 300_000); sys.exit(10)")
    steps: list[str] = []

    with pytest.raises(Unreachable, match="t" * 300_000):
        asyncio.run(VERIFICATION.run(steps.append))
    assert max(map(len, steps)) == 2000


def test_the_verdict_of_a_tree_is_what_its_command_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it found; topics are those that were named."""
    told = "{'equal': 'verify' not in sys.argv, 'clusters': sys.argv[3:]}"
    command(monkeypatch, f"import json, sys; print(json.dumps({told})); sys.exit(4)")
    verification = TreeVerification(file=Path("isthmus.yaml"), tree="t", topics=["flights"])

    verdict = asyncio.run(verification.run(lambda _: None))
    assert verdict["equal"] is False
    assert verdict["clusters"] == ["t", "--config=isthmus.yaml", "--output=json", "--topic=flights"]


def test_a_verdict_about_a_part_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records that could not be compared are named in it, and nothing is equal; without a verdict it is an error."""
    command(monkeypatch, "import sys; print('[]'); sys.stderr.write('Error ISTH-GATE: not all'); sys.exit(5)")
    verification = asyncio.run(VERIFICATION.run(lambda _: None))
    assert (verification.equal, verification.verdicts) == (False, [])

    command(monkeypatch, "import sys; sys.stderr.write('Error ISTH-GATE: not yet'); sys.exit(5)")
    with pytest.raises(GateNotMet, match="not yet"):
        asyncio.run(VERIFICATION.run(lambda _: None))


def test_nothing_of_it_is_left_when_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """By whatever happens here."""
    command(monkeypatch, ENDLESS)
    said: list[str] = []

    def fail(step: str) -> None:
        said.append(step)
        if step.isdigit():
            raise ValueError("what it says cannot be told")

    with pytest.raises(ValueError, match="cannot be told"):
        asyncio.run(VERIFICATION.run(fail))
    with pytest.raises(ProcessLookupError):
        os.kill(int(said[-1]), 0)
