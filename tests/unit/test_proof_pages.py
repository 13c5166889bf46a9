"""Pages that say which test shows what: every test they name exists, and every row has a test or a reason."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = ("seeds.md", "mm2-conformance.md", "expectations.md")
NAMED = re.compile(r"`(tests/[^`]*)`")
# A bar that is escaped is text, not the end of a cell.
CELLS = re.compile(r"(?<!\\)\|")
REASON = re.compile(r"(?:^|; )(n/a|not yet): \S")


class Row(NamedTuple):
    """One row of a page: the heading above it, and what stands first and last in it."""

    section: str
    name: str
    proof: str


def rows(page: str) -> list[Row]:
    """All rows of a page's tables, without their headings."""
    found: list[Row] = []
    section = ""
    lines = (DOCS / page).read_text(encoding="utf-8").splitlines()
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if line.startswith("## "):
            section = line[3:]
        cells = [cell.strip() for cell in CELLS.split(line)[1:-1]]
        if cells and not following.startswith("|---") and not line.startswith("|---"):
            found.append(Row(section, cells[0], cells[-1]))
    return found


@cache
def functions_of(module: str) -> frozenset[str]:
    """The names of a module's tests, read and not imported; none where there is no such module."""
    path = ROOT / module
    if not path.is_file():
        return frozenset()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return frozenset(function.name for function in functions if function.name.startswith("test_"))


@pytest.mark.parametrize("page", PAGES)
def test_every_named_test_exists(page: str) -> None:
    """A test that is renamed or removed is renamed here too, or its row loses its proof."""
    named = NAMED.findall((DOCS / page).read_text(encoding="utf-8"))
    assert named
    missing = [test for test in named if test.partition("::")[2] not in functions_of(test.partition("::")[0])]
    assert missing == []


@pytest.mark.parametrize("page", PAGES)
def test_every_row_has_a_test_or_a_reason(page: str) -> None:
    """Nothing is left open silently: each row names a test, or says `n/a: why` or `not yet: what is missing`."""
    found = rows(page)
    assert found
    bare = [row.name for row in found if not NAMED.search(row.proof) and not REASON.search(row.proof)]
    assert bare == []


def test_no_row_of_a_document_is_left_out() -> None:
    """Rows are numbered without a gap within each document, and all five are there."""
    numbers: dict[str, list[int]] = {}
    for row in rows("seeds.md"):
        document, _, number = row.name.partition(".")
        numbers.setdefault(document, []).append(int(number))
    assert sorted(numbers) == ["S000", "S001", "S002", "S003", "S004"]
    for document, found in numbers.items():
        assert found == list(range(1, len(found) + 1)), document


def test_no_expectation_is_left_out() -> None:
    """The 48 of them are numbered without a gap."""
    assert [row.name for row in rows("expectations.md")] == [f"E{number}" for number in range(1, 49)]


def test_a_test_of_mirror_maker_stands_once() -> None:
    """Each of its tests has one row below its class."""
    names = [row[:2] for row in rows("mm2-conformance.md")]
    assert sorted(set(names)) == sorted(names)
