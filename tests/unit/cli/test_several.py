"""One verb for several links."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from isthmus.cli.app import app as main
from isthmus.cli.links import promoting
from isthmus.cli.links.link import app as link
from isthmus.cli.output import OutputFormat, Row
from isthmus.cli.several import each_link, each_shown
from isthmus.config.reading.places import SMALLEST
from isthmus.errors import ConfigError, GateNotMet, IsthmusError, PlanRefused
from isthmus.model.configuration import Configuration
from isthmus.model.links.promotion import Promotion

_FAILING = {"b": GateNotMet("b lags", hint="Wait."), "c": PlanRefused("c cannot", hint="Do not.")}


def _done(name: str) -> Row:
    if name in _FAILING:
        raise _FAILING[name]
    return {"done": True}


def _each(names: list[str], output: OutputFormat) -> list[Row]:
    shown: list[Row] = []
    each_shown(names, output, _done, shown.append, lambda row: row)
    return shown


def test_what_fails_for_one_is_done_for_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    """A row for each in the order given, each once, and the exit code of the first that failed."""
    with pytest.raises(typer.Exit) as ended:
        _each(["a", "b", "c", "a", "d"], OutputFormat.JSON)
    rows = json.loads(capsys.readouterr().out)
    codes = [(row["link"], row["problem"] and row["problem"]["code"]) for row in rows]
    assert codes == [("a", None), ("b", "ISTH-GATE"), ("c", "ISTH-PLAN-REFUSED"), ("d", None)]
    assert [row.get("done") for row in rows] == [True, None, None, True]
    assert ended.value.exit_code == GateNotMet.exit_code


def test_one_link_is_told_as_before() -> None:
    """Its result is no list, and its error is raised."""
    assert _each(["a", "a"], OutputFormat.JSON) == [{"done": True}]
    with pytest.raises(IsthmusError, match="b lags"):
        _each(["b"], OutputFormat.JSON)


def test_people_read_each_result_and_each_failure(capsys: pytest.CaptureFixture[str]) -> None:
    """Results as they come on stdout, failures with code and hint on stderr."""
    with pytest.raises(typer.Exit):
        _each(["a", "b"], OutputFormat.TABLE)
    assert "b: ISTH-GATE: b lags. Wait." in capsys.readouterr().err


def test_names_are_of_what_was_done(capsys: pytest.CaptureFixture[str]) -> None:
    """For the next command of a script; what failed is told on stderr, since names cannot tell it."""
    with pytest.raises(typer.Exit):
        _each(["a", "b", "d"], OutputFormat.NAME)
    told = capsys.readouterr()
    assert told.out == "a\nd\n"
    assert "b: ISTH-GATE: b lags. Wait." in told.err


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A configuration with the links east-west and back."""
    path = tmp_path / "isthmus.yaml"
    path.write_text(SMALLEST + "  - {name: back, source: west, target: east, topics: {include: [orders]}}\n")
    return path


def _paused(link: str, topic: str | None, _: Configuration) -> Row:
    if (link, topic) == ("back", "flights"):
        raise PlanRefused("back has no flights", hint="Leave it out.")
    return {"outcome": "paused"}


def test_topics_of_links_have_a_result_each(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each topic of each link, each once; what fails for one is done for the others."""
    links, topics = ["east-west", "back", "back"], ["orders", "flights", "orders"]
    with pytest.raises(typer.Exit) as ended:
        each_link(links, topics, {"task": None}, file, OutputFormat.JSON, _paused)
    rows = json.loads(capsys.readouterr().out)
    assert [(row["link"], row["topic"], row["outcome"]) for row in rows] == [
        ("east-west", "orders", "paused"),
        ("east-west", "flights", "paused"),
        ("back", "orders", "paused"),
        ("back", "flights", "failed"),
    ]
    assert (rows[-1]["problem"]["code"], ended.value.exit_code) == ("ISTH-PLAN-REFUSED", PlanRefused.exit_code)


def test_topics_are_named_as_wait_takes_them(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And links by themselves; one that fails alone is an error like any other."""
    each_link(["back"], ["orders", "news"], {}, file, OutputFormat.NAME, _paused)
    each_link(["back", "east-west"], [], {}, file, OutputFormat.NAME, _paused)
    assert capsys.readouterr().out == "back/orders\nback/news\nback\neast-west\n"
    with pytest.raises(PlanRefused):
        each_link(["back"], ["flights"], {}, file, OutputFormat.JSON, _paused)


def test_what_is_no_link_has_its_own_key(capsys: pytest.CaptureFixture[str]) -> None:
    """Groups are groups; a problem that a result has itself stays."""

    def work(name: str) -> Row:
        return {**_done(name), "problem": {"message": "a part of it"}}

    with pytest.raises(typer.Exit):
        each_shown(["a", "b"], OutputFormat.JSON, work, print, lambda row: row, noun="group")
    rows = json.loads(capsys.readouterr().out)
    assert [(row["group"], row["problem"]["message"]) for row in rows] == [("a", "a part of it"), ("b", "b lags")]


@pytest.mark.parametrize(
    ("links", "names", "says"),
    [
        (("ab", "cd"), ("ba",), "2 links and 1 name for the ways back"),
        (("ab",), ("ba", "dc"), "1 link and 2 names"),
        (("ab", "ab"), ("ba", "dc"), "ab is named twice"),
        (("ab", "cd"), ("ba", "ba"), "ba is named twice"),
    ],
)
def test_each_link_that_is_reversed_has_a_new_name(
    file: Path, links: tuple[str, ...], names: tuple[str, ...], says: str
) -> None:
    """As many as there are links, each once; else nothing is asked and no cluster contacted."""
    given = [*links, *(word for name in names for word in ("--as", name)), "--yes", "-c", str(file)]
    result = CliRunner().invoke(link, ["reverse", *given])
    assert isinstance(result.exception, ConfigError), result.output
    assert says in result.exception.message


class Reversing:
    """A fabric whose links do nothing but change places, all but `cd`."""

    def __init__(self, name: object) -> None:
        self._name = str(name)

    def link(self, name: str) -> Reversing:
        """One of them."""
        return Reversing(name)

    def promoter(self, **_: object) -> Reversing:
        """Itself."""
        return self

    def reverse(self, back: str, *, dry_run: bool) -> Promotion:
        """Only told by its name."""
        assert not dry_run
        if self._name == "cd":
            raise _FAILING["b"]
        return Promotion(link=self._name, verb="promote", namespaces=(), groups={"back": back})


def test_links_are_reversed_each_by_itself(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each under the new name at its place; what fails for one is done for the others."""
    monkeypatch.setattr(promoting, "Fabric", Reversing)
    with pytest.raises(typer.Exit) as ended:
        promoting.reverse(["ab", "cd", "ef"], ["ba", "dc", "fe"], yes=True, path=file, output=OutputFormat.JSON)
    rows = json.loads(capsys.readouterr().out)
    assert [(row["link"], row.get("groups"), row["problem"] and row["problem"]["code"]) for row in rows] == [
        ("ab", {"back": "ba"}, None),
        ("cd", None, "ISTH-GATE"),
        ("ef", {"back": "fe"}, None),
    ]
    assert ended.value.exit_code == GateNotMet.exit_code


def test_verbs_that_take_several() -> None:
    """As their help says."""
    for words in (
        ("wait",), ("pause",), ("resume",), ("filters",), ("settings",), ("groups", "drill"),
        *(("link", verb) for verb in ("attach", "delete", "detach", "failover", "promote", "reattach", "recover",
                                      "reverse", "update")),
    ):  # fmt: skip
        result = CliRunner().invoke(main, [*words, "--help"], prog_name="isthmus")
        assert "..." in result.stdout.splitlines()[1], words
