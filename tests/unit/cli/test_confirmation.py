"""What cannot be taken back needs its name typed, or --yes."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import pytest
import typer
from typer.core import TyperGroup
from typer.main import get_command
from typer.testing import CliRunner

from isthmus.cli import app
from isthmus.cli.confirmation import confirm
from isthmus.config.places import SMALLEST
from isthmus.errors import ConfigError

# Those that know what to refuse before any cluster is asked.
AT_ONCE = (
    ("link", "detach", "ab"),
    ("link", "promote", "ab"),
    ("link", "reverse", "ab", "--as", "ba"),
    ("namespace", "delete", "west", "orders-"),
    ("namespace", "update", "west", "orders-", "--no-reserved"),
    ("namespace", "update", "west", "orders-", "--enforce"),
    ("quarantine", "replay", "east-west", "orders"),
    ("forget", "east-west", "--at", "west"),
)
ALL = (*AT_ONCE, ("link", "failover", "ab"), ("link", "delete", "ab"), ("link", "recover", "ab"))


class Terminal:
    """A stdin with a person at it who types one line."""

    def __init__(self, line: str) -> None:
        self._line = line

    def isatty(self) -> bool:
        return True

    def readline(self, *_: object) -> str:
        return f"{self._line}\n"


@pytest.mark.parametrize("words", AT_ONCE, ids=" ".join)
def test_without_a_terminal_nobody_is_asked(words: tuple[str, ...], tmp_path: Path) -> None:
    """Input that comes from a script is no answer: the command refuses, names --yes, and asks no cluster."""
    (tmp_path / "isthmus.yaml").write_text(SMALLEST)
    command = import_module(app.COMMANDS[words[0]].module).app
    given = [*words[1:], "-c", str(tmp_path / "isthmus.yaml")]

    result = CliRunner().invoke(command, given, input="ab\norders-*\norders\n")

    assert isinstance(result.exception, ConfigError), result.output
    assert "--yes" in result.exception.hint
    assert "Type" not in result.output


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_what_cannot_be_taken_back_can_be_tried_and_scripted(words: tuple[str, ...]) -> None:
    """Each has --yes and --dry-run."""
    command = get_command(import_module(app.COMMANDS[words[0]].module).app)
    context = typer.Context(command)
    if words[0] != "forget":
        assert isinstance(command, TyperGroup)
        found = command.get_command(context, words[1])
        assert found is not None
        command = found

    options = {option for each in command.params for option in each.opts}

    assert {"--yes", "--dry-run"} <= options


@pytest.mark.parametrize("typed", ["orders-", "y", "ORDERS"])
def test_only_the_name_itself_will_do(typed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name is typed in full; a yes is none."""
    monkeypatch.setattr(sys, "stdin", Terminal("orders"))
    confirm("orders", "delete it")
    monkeypatch.setattr(sys, "stdin", Terminal(typed))
    with pytest.raises(ConfigError, match="nothing was changed"):
        confirm("orders", "delete it")
