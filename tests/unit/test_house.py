"""What `make house` counts: arrows between folders, and names that are no verbs."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

import pytest

from house.flags import find_events, find_flags
from house.lanes import find_assignments, find_changed, find_values
from house.ledger import find_made_keys
from house.report import Figure, take_figures
from house.source import read_modules
from house.structure import find_circles, find_cycles
from house.words import is_participle


def test_circles_are_found() -> None:
    """Whatever leads back to itself is one circle, and what only hangs on it is none."""
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set(), "e": {"f"}, "f": {"e"}}

    assert find_circles(graph) == [["a", "b", "c"], ["e", "f"]]


def test_a_circle_of_folders_has_folders() -> None:
    """Files of one folder may know each other; no folder of the kernel knows one above it."""
    assert find_cycles(read_modules("src/isthmus/kafka", "src/isthmus/model")) == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [("told", True), ("ended", True), ("end", False), ("read", False), ("need", False), ("ended_at", False)],
)
def test_bare_participles(name: str, expected: bool) -> None:
    """A name that is one participle hides what the function does; what reads as a verb as well is none."""
    assert is_participle(name) is expected


def test_values_of_lanes_are_assigned_at_home() -> None:
    """The values are found through the fields of a lane, and who assigns one elsewhere is found as well."""
    product = read_modules("src/isthmus/engine")
    values = find_values(product)
    assert {"LaneRun", "Intake", "Belief", "Health", "Writer", "Transit", "Evidence"} <= set(values)
    assert "pending" in values["Intake"].fields
    assert find_assignments(product, values) == {}


def test_assignments_are_found_however_they_are_written() -> None:
    """In tuples, within what they hold, and by methods that change them."""
    text = """
run.phase, (left, run.belief.check) = placed, found
run.tally.records += 1
run.intake.pending[0] = piece
del run.missing.prefix
run.missing.gaps.append(gap)
print(run.writer.position, run.intake.pending.copy())
"""
    expected = {
        "run.phase",
        "run.belief.check",
        "run.tally.records",
        "run.intake.pending",
        "run.missing.prefix",
        "run.missing.gaps",
    }
    assert {ast.unparse(each) for each in find_changed(ast.parse(text))} == expected


def test_flags_are_found_by_their_names_and_by_their_values() -> None:
    """In tuples too, whatever they are annotated with; what only holds something is none."""
    text = """
self._is_over = self._has_begun = found
self.error, self._known = None, True
self._may_send: bool = link.may_send
self._problem, self._stopping = None, asyncio.Event()
is_over = True
"""
    tree = ast.parse(text)
    assert sorted(each.attr for each in find_flags(tree)) == ["_has_begun", "_is_over", "_known", "_may_send"]
    assert len(list(find_events(tree))) == 1


@pytest.fixture(scope="module", name="figures")
def take_all_figures() -> dict[str, Figure]:
    """The figures of the whole repository, by what they count."""
    return {figure.what: figure for figure in take_figures()}


def test_bounds_that_were_reached_are_kept(figures: dict[str, Figure]) -> None:
    """Every figure with a bound keeps it, but for the settings, which never did (docs/decisions/house.md)."""
    broken = {figure.what: figure.places for figure in figures.values() if not figure.is_kept}

    assert [what for what in broken if not what.startswith("settings")] == [], broken


def test_every_figure_is_taken(figures: dict[str, Figure]) -> None:
    """Nothing is counted as zero because it was not found: the sizes are those of a whole repository."""
    assert figures["files of the product"].count > 100
    assert figures["lines of the product"].count > 10_000
    assert len(figures) == 22
    assert figures["fields of LaneRun"].count > 10


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('f"{PauseDocument.KIND}/{link}"', True),
        ('"/".join([kind.KIND, link])', True),
        ('f"isthmus {found.KIND} describe"', False),
        ("PauseDocument.key_of(link)", False),
    ],
)
def test_keys_made_by_hand(text: str, expected: bool) -> None:
    """A kind in a text is a key only where a path follows it."""
    assert bool(find_made_keys(ast.parse(text))) is expected


def test_mutants_have_what_their_tests_import() -> None:
    """Folders that tests of mutants import are copied beside the changed source: without one nothing is tried."""
    settings = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["tool"]["mutmut"]
    selected = settings["pytest_add_cli_args_test_selection"]
    loaded = [each for each in read_modules("tests") if str(each.path) in selected or each.path.parent == Path("tests")]
    folders = {name.partition(".")[0] for each in loaded for name in each.imports}

    assert len(loaded) > len(selected)
    assert {folder for folder in folders if Path(folder).is_dir()} - {"tests"} <= set(settings["also_copy"])
