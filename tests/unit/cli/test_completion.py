"""Completion: commands, options, and names as they were found last, without loading what takes time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from isthmus.cli import remembered
from isthmus.cli.completion import TREE, complete, completions
from isthmus.config.reading.contexts import Contexts, change_contexts
from isthmus.config.reading.places import user_folder

SOURCE = Path(__file__).parents[3] / "src"
FILE = """\
clusters:
  east: {bootstrap_servers: "127.0.0.1:1"}
  west: {bootstrap_servers: "127.0.0.1:1"}
links:
  - name: east-west
    source: east
    target: west
    topics: {include: [flights, "orders.*"]}
    groups: {include: [billing]}
  - {name: west-east, source: west, target: east, topics: {include: [payments]}}
trees: [{name: world, clusters: [east, west]}]
"""
FOUND = {
    "east-west": {"topics": ["orders.eu", "orders.us"], "groups": ["billing", "$(touch x)", "two words", "*"]},
    "gone": {"topics": ["old"], "groups": []},
}


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The processes that were started to ask clusters; none is. There is a configuration, and nothing was found yet."""
    started: list[list[str]] = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("ISTHMUS_CONFIG", raising=False)
    monkeypatch.setattr(remembered, "start_aside", started.append)
    (tmp_path / "isthmus.yaml").write_text(FILE)
    return started


def found(at: float, **others: Any) -> None:
    """Keep names as a look would have."""
    remembered.remember(remembered.cache_file(Path("isthmus.yaml").absolute()), {"at": at, "links": FOUND, **others})


@pytest.mark.parametrize(
    ("words", "incomplete", "expected"),
    [
        ((), "con", ["config", "context"]),
        (("groups",), "d", ["describe", "drill"]),
        (("-v", "status"), "--pr", ["--problems"]),
        (("status", "-o"), "js", ["json", "jsonl"]),
        (("status",), "--sort=l", ["--sort=lag"]),
        (("status", "--sort"), "", ["name", "lag", "state"]),
        (("status", "-o", "json", "--partitions", "--link"), "", ["east-west", "west-east"]),
        (("verify",), "", ["east-west", "west-east"]),
        (("status", "west-east", "--topic"), "", ["payments"]),
        (("pause",), "w", ["west-east"]),
        (("pause", "west-east", "--topic"), "", ["payments"]),
        (("status", "--topic"), "", ["flights", "payments"]),
        (("status", "--link", "east-west", "--topic"), "", ["flights"]),
        (("wait",), "west-east/", ["west-east/payments"]),
        (("forget", "east-west", "a"), "f", ["flights"]),
        (("groups", "describe"), "", ["billing"]),
        (("cluster", "describe"), "", ["east", "west"]),
        (("filters",), "e", ["east-west"]),
        (("link", "promote", "east-west"), "", ["east-west", "west-east"]),
        (("schemas", "diff", "east"), "w", ["west"]),
        (("forget", "west-east", "--at"), "", ["east", "west"]),
        (("help",), "exit", ["exit-codes"]),
        (("tree", "describe"), "", ["world"]),
        (("tree", "switch", "world", "east", "1", "--to"), "w", ["west"]),
        (("namespace", "ls"), "e", ["east"]),
        (("tree", "desc"), "", ["world"]),
        (("link", "rm"), "w", ["west-east"]),
        (("pause", "west-east", "--task"), "d", ["data"]),
        (("link", "create", "new", "--source"), "", ["east", "west"]),
        (("status", "-c"), "", []),
        (
            ("nothing",),
            "--",
            [
                *("--bootstrap-server", "--command-config", "--config", "--context", "--help", "--install-completion"),
                *("--log-file", "--show-completion", "--unsafe-trace", "--verbose", "--version"),
            ],
        ),
    ],
)
def test_what_a_word_may_become(
    asked: list[list[str]], words: tuple[str, ...], incomplete: str, expected: list[str]
) -> None:
    """Commands, options, choices, and the names that the configuration file itself has."""
    assert sorted(completions(words, incomplete)) == sorted(expected)


def test_names_as_they_were_found_last(asked: list[list[str]]) -> None:
    """Together with those of the file; old ones are given as well, while a process looks anew, once."""
    found(time.time() - 3600)
    assert completions(["status", "--topic"], "o") == ["old", "orders.eu", "orders.us"]
    assert completions(["status", "--link", "east-west", "--topic"], "") == ["flights", "orders.eu", "orders.us"]
    assert [command[1:3] for command in asked] == [["-m", "isthmus.cli.remembered"]]


def test_names_that_are_fresh_are_not_asked_for(asked: list[list[str]]) -> None:
    """A shell may ask several times a second."""
    found(time.time())
    completions(["pause"], "")
    assert asked == []


def test_names_a_shell_would_take_for_more_are_left_out(asked: list[list[str]]) -> None:
    """Anybody may call a group what he likes: zsh evaluates what it is told, and bash expands stars."""
    found(time.time())
    assert completions(["groups", "describe"], "") == ["billing"]


@pytest.mark.parametrize("text", ["", "- [", "links: 7\nclusters: [x]", "links: [7, {name: {}}]\n"])
def test_a_broken_file_breaks_nothing(asked: list[list[str]], text: str) -> None:
    """It may be half written; the commands tell what is wrong with it."""
    Path("isthmus.yaml").write_text(text)
    completions(["pause"], "")
    completions(["cluster", "describe"], "")
    completions(["status", "--topic"], "")
    Path("isthmus.yaml").unlink()
    assert completions(["pause"], "") == []


def test_declared_links_and_trees_are_completed_as_they_were_found_last(asked: list[list[str]]) -> None:
    """The file does not have them."""
    found(time.time(), declared=["declared"], declared_trees=["grown"])

    assert completions(["link", "promote"], "") == ["declared", "east-west", "west-east"]
    assert completions(["tree", "describe"], "") == ["grown", "world"]


def test_the_file_of_a_context_counts(asked: list[list[str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Also where there is a nearer one; contexts themselves are completed."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    other = tmp_path / "other.yaml"
    other.write_text("links: [{name: elsewhere}]")
    change_contexts(user_folder(), lambda _: Contexts(paths={"prod": other}))

    assert completions(["--context", "prod", "pause"], "") == ["elsewhere"]
    assert completions(["--context=prod", "pause"], "") == ["elsewhere"]
    assert completions(["--context", "none", "pause"], "") == []
    assert completions(["context", "use"], "") == ["prod"]
    assert completions(["--context"], "p") == ["prod"]


UNKNOWN_BEFORE = {
    "context add": ["text"],
    "gateway forget": ["text"],
    "import": ["text"],
    "namespace create": ["text"],
    "namespace delete": ["text"],
    "namespace describe": ["text"],
    "namespace update": ["text"],
    "token revoke": ["text"],
    "tree switch": ["text"],
}
"""Files, addresses, ids of gateways, prefixes, names of tokens and levels: nobody keeps them for completion."""


def test_all_other_arguments_are_completed() -> None:
    """By what is known of them."""
    found: dict[str, list[str]] = {}

    def look(node: dict[str, Any], name: str) -> None:
        unknown = [kind for kind in node["arguments"] if kind == "text"]
        if unknown:
            found[name] = unknown
        for word, inner in node["commands"].items():
            look(inner, f"{name} {word}".strip())

    look(json.loads(TREE.read_text(encoding="utf-8")), "")
    assert found == UNKNOWN_BEFORE


def test_each_shell_has_its_form(asked: list[list[str]]) -> None:
    """As the scripts that --install-completion writes read it."""
    bash = {"_ISTHMUS_COMPLETE": "complete_bash", "COMP_WORDS": "isthmus pause ", "COMP_CWORD": "2"}
    assert complete(bash) == ("east-west\nwest-east\n", 0)
    written = {**bash, "COMP_WORDS": "isthmus status --link = w", "COMP_CWORD": "4"}
    assert complete(written) == ("west-east\n", 0)
    written |= {"COMP_WORDS": "isthmus status --link = west-east --topic =", "COMP_CWORD": "6"}
    assert complete(written) == ("payments\n", 0)
    other = {"_TYPER_COMPLETE_ARGS": "isthmus pause e"}
    assert complete({"_ISTHMUS_COMPLETE": "complete_zsh", **other}) == ("_arguments '*: :((\"east-west\"))'\n", 0)
    fish = {"_ISTHMUS_COMPLETE": "complete_fish", **other}
    assert complete({**fish, "_TYPER_COMPLETE_FISH_ACTION": "get-args"}) == ("east-west\n", 0)
    assert complete({**fish, "_TYPER_COMPLETE_FISH_ACTION": "is-args"}) == ("", 0)
    nothing = {"_ISTHMUS_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": "isthmus status -c "}
    assert complete(nothing) == ("_files\n", 0)


def test_a_shell_does_not_wait_for_what_commands_need(asked: list[list[str]], tmp_path: Path) -> None:
    """Neither typer nor rich, neither pydantic nor a Kafka client is loaded."""
    found(time.time())
    (tmp_path / "sitecustomize.py").write_text(
        "import atexit, sys\n"
        "heavy = {'typer', 'rich', 'pyspark', 'kafka', 'aiokafka', 'pydantic', 'asyncio'}\n"
        "atexit.register(lambda: sys.stderr.write(f'loaded: {heavy & set(sys.modules)}'))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", "from isthmus.cli.entry import main; main()"],
        cwd=tmp_path,
        env={
            "PYTHONPATH": f"{SOURCE}:{tmp_path}",
            "XDG_CACHE_HOME": str(tmp_path / "cache"),
            "PATH": os.environ["PATH"],
            "_ISTHMUS_COMPLETE": "complete_bash",
            "COMP_WORDS": "isthmus pause ea",
            "COMP_CWORD": "2",
        },
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("east-west\n", "loaded: set()")


def test_a_look_that_finds_nothing_keeps_what_is_known(asked: list[list[str]]) -> None:
    """Clusters that are away keep their names; that they were asked is remembered."""
    found(0)
    remembered.look(Path("isthmus.yaml").absolute())
    kept = json.loads(remembered.cache_file(Path("isthmus.yaml").absolute()).read_text())
    assert (kept["links"], kept["at"] > 0) == (FOUND, True)
