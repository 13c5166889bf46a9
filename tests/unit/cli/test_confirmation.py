"""What cannot be taken back needs its name typed, or --yes."""

from __future__ import annotations

import json
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
from isthmus.config.reading.contexts import Contexts, change_contexts
from isthmus.config.reading.places import SMALLEST, user_folder
from isthmus.errors import ConfigError
from isthmus.local.folders import state_folder
from isthmus.local.layout import Layout
from isthmus.local.template import new_id
from isthmus.web.access.tokens import Role, TokenFile

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
    ("gateway", "forget", "east", "kafka:19092"),
    ("tree", "remove", "world", "east"),
    ("tree", "move", "world", "east", "--beside", "west"),
    ("cluster", "reassign", "east", "--execute", "plan.json"),
    ("token", "revoke", "alice", "--tokens", "tokens.json"),
    ("context", "delete", "prod"),
    ("local", "down", "--wipe"),
)
ALL = (
    *AT_ONCE,
    ("link", "failover", "ab"),
    ("link", "delete", "ab"),
    ("link", "recover", "ab"),
    ("tree", "delete", "world"),
    ("tree", "switch", "world", "east", "1"),
    ("schemas", "sync"),
    ("schemas", "primary", "east"),
)


class Terminal:
    """A stdin with a person at it who types one line."""

    def __init__(self, line: str) -> None:
        self._line = line

    def isatty(self) -> bool:
        return True

    def readline(self, *_: object) -> str:
        return f"{self._line}\n"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a configuration, an assignment, a token, a context and a local cluster that is stopped."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ISTHMUS_CONTEXT", raising=False)
    for variable in ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(variable, str(tmp_path))
    (tmp_path / "isthmus.yaml").write_text(SMALLEST)
    assignment = {"topic": "orders", "partition": 0, "replicas": [1]}
    (tmp_path / "plan.json").write_text(json.dumps({"version": 1, "partitions": [assignment]}))
    TokenFile(tmp_path / "tokens.json").create("alice", Role.VIEWER)
    layout = Layout(name="solo", cluster_id=new_id(), kafka_version="4.0.0", nodes=())
    (state_folder() / "solo").mkdir(parents=True)
    (state_folder() / "solo" / "cluster.json").write_text(layout.to_json())
    change_contexts(user_folder(), lambda _: Contexts(paths={"prod": tmp_path / "isthmus.yaml"}))
    return tmp_path


def kept(folder: Path) -> dict[str, str]:
    """All files of a folder and below, as they are."""
    return {str(path): path.read_text() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("words", AT_ONCE, ids=" ".join)
def test_without_a_terminal_nobody_is_asked(words: tuple[str, ...], here: Path) -> None:
    """Input that comes from a script is no answer: the command refuses, names --yes, asks no cluster and keeps all."""
    before = kept(here)

    result = CliRunner().invoke(
        import_module(app.COMMANDS[words[0]].module).app, words[1:], input="ab\norders-*\nprod\n"
    )

    assert isinstance(result.exception, ConfigError), result.output
    assert result.exception.exit_code == 2
    assert "--yes" in result.exception.hint
    assert "Type" not in result.output
    assert kept(here) == before


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("token", "revoke", "alice", "--tokens", "tokens.json"), "alice"),
        (("context", "delete", "prod"), "prod"),
        (("local", "down", "--wipe"), "solo"),
    ],
)
def test_what_is_on_this_host_goes_once_its_name_is_typed(
    words: tuple[str, ...], name: str, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another name keeps it; a dry run keeps it too, and asks nobody."""
    command = import_module(app.COMMANDS[words[0]].module).app
    before = kept(here)
    assert CliRunner().invoke(command, [*words[1:], "--dry-run"]).exit_code == 0
    monkeypatch.setattr(sys, "stdin", Terminal("other"))
    with pytest.raises(ConfigError, match="nothing was changed"):
        command([*words[1:]], standalone_mode=False)
    assert kept(here) == before

    monkeypatch.setattr(sys, "stdin", Terminal(name))
    command([*words[1:]], standalone_mode=False)
    assert name not in "".join(each for path, each in kept(here).items() if path.endswith(".json"))


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
