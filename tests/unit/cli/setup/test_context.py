"""Names for configuration files, and short names for commands."""

from __future__ import annotations

import json
import threading
from importlib import import_module
from pathlib import Path

import pytest
from typer.core import TyperGroup
from typer.main import get_command
from typer.testing import CliRunner

from isthmus import config
from isthmus.cli import app
from isthmus.cli.noun import SYNONYMS, Noun
from isthmus.cli.setup.context import app as context
from isthmus.config.reading.contexts import Contexts, change_contexts, read_contexts
from isthmus.config.reading.places import SMALLEST
from isthmus.errors import ConfigError

RUNNER = CliRunner()
_AT_ONCE = 16


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with two configuration files, and an empty folder to stand in."""
    for name in ("prod", "test"):
        (tmp_path / f"{name}.yaml").write_text(SMALLEST)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for variable, value in {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "xdg")}.items():
        monkeypatch.setenv(variable, value)
    for variable in ("ISTHMUS_CONFIG", "ISTHMUS_CONTEXT"):
        monkeypatch.delenv(variable, raising=False)
    return tmp_path


def call(*arguments: str) -> str:
    """What `isthmus context` prints."""
    result = RUNNER.invoke(context, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_current_one_counts_where_no_file_is_nearer(home: Path) -> None:
    """It is found from anywhere; a project's own file comes before it."""
    call("add", "prod", str(home / "prod.yaml"), "--use")
    call("add", "test", str(home / "test.yaml"))

    assert config.find() == home / "prod.yaml"
    call("use", "test")
    assert config.find() == home / "test.yaml"
    assert [(row["name"], row["is_current"]) for row in json.loads(call("ls", "-o", "json"))] == [
        ("prod", False),
        ("test", True),
    ]
    Path("isthmus.yaml").write_text(SMALLEST)
    assert config.find() == Path("isthmus.yaml")
    assert json.loads(call("show", "-o", "json"))["file"] == str(home / "here" / "isthmus.yaml")


def test_a_named_one_counts_before_all_but_a_file_that_is_given(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the option or by the variable."""
    call("add", "prod", str(home / "prod.yaml"))
    monkeypatch.setenv("ISTHMUS_CONFIG", str(home / "test.yaml"))
    monkeypatch.setenv("ISTHMUS_CONTEXT", "prod")

    assert config.find() == home / "prod.yaml"
    assert config.find(home / "test.yaml") == home / "test.yaml"


def test_one_that_there_is_not(home: Path) -> None:
    """The error names what is near, and what there is."""
    call("add", "prod", str(home / "prod.yaml"))

    with pytest.raises(ConfigError, match="no context prd") as refused:
        RUNNER.invoke(context, ["use", "prd"], catch_exceptions=False)
    assert "Did you mean prod?" in refused.value.hint


def test_a_name_is_deleted_and_the_file_stays(home: Path) -> None:
    """Where it was the current one, none is."""
    call("add", "prod", str(home / "prod.yaml"), "--use")
    call("rm", "prod", "--yes")

    assert read_contexts(home / "xdg" / "isthmus") == Contexts()
    assert (home / "prod.yaml").exists()


@pytest.mark.parametrize("words", [["add", "other", "FILE", "--use"], ["use", "test"], ["rm", "prod"]])
def test_a_dry_run_writes_nothing(home: Path, words: list[str]) -> None:
    """Of names and of which of them counts."""
    call("add", "prod", str(home / "prod.yaml"), "--use")
    call("add", "test", str(home / "test.yaml"))
    before = read_contexts(home / "xdg" / "isthmus")

    arguments = [str(home / "test.yaml") if word == "FILE" else word for word in words]
    result = RUNNER.invoke(context, [*arguments, "--dry-run"], catch_exceptions=False)
    assert "would" in result.output
    assert read_contexts(home / "xdg" / "isthmus") == before


def test_names_that_are_given_and_deleted_at_once_are_all_there_or_gone(home: Path) -> None:
    """By commands that know nothing of each other: none is lost, and none comes back."""
    folder = home / "xdg" / "isthmus"
    for number in range(_AT_ONCE):
        call("add", f"old-{number}", str(home / "test.yaml"))
    begin = threading.Barrier(2 * _AT_ONCE)

    def give(number: int) -> None:
        begin.wait()
        change_contexts(folder, lambda found: Contexts(paths={**found.paths, f"new-{number}": home / "prod.yaml"}))

    def delete(number: int) -> None:
        begin.wait()
        change_contexts(
            folder,
            lambda found: Contexts(paths={name: path for name, path in found.paths.items() if name != f"old-{number}"}),
        )

    threads = [threading.Thread(target=do, args=(number,)) for do in (give, delete) for number in range(_AT_ONCE)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()

    assert set(read_contexts(folder).paths) == {f"new-{number}" for number in range(_AT_ONCE)}
    assert [each.name for each in folder.iterdir()] == ["contexts.json"]


def test_names_survive(home: Path) -> None:
    """What is written is read again; a file that is none of ours is refused, not replaced."""
    folder = home / "xdg" / "isthmus"
    kept = Contexts(paths={"a b": Path("/x"), "é": Path("/y")}, current="é")
    change_contexts(folder, lambda _: kept)

    assert read_contexts(folder) == kept
    (folder / "contexts.json").write_text("[]")
    with pytest.raises(ConfigError, match=r"contexts\.json"):
        read_contexts(folder)


@pytest.mark.parametrize("noun", app.COMMANDS)
def test_short_names(noun: str) -> None:
    """Each works in every group of commands that has what it is short for, and is not among those that are shown."""
    commands = get_command(import_module(app.COMMANDS[noun].module).app)
    if not isinstance(commands, TyperGroup):
        return
    assert isinstance(commands, Noun)

    for short, name in SYNONYMS.items():
        assert name not in commands.commands or commands.get_command(None, short).name == name
        assert short not in commands.commands
