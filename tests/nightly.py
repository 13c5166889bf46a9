"""Which tests `make test` leaves to `make nightly`: those that tests/nightly.txt names, each under its file.

`make test` has one test of each mechanism. More cases of it, and what takes a minute, are run by `make nightly`. A test
that is named on the command line is run either way.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

LIST: Final = Path(__file__).with_name("nightly.txt")
unmatched: Final[set[tuple[str, str]]] = set()
"""The lines that name no test of a file that was collected here, `tests/unit/test_nightly.py` tells of them."""


def named() -> Iterator[tuple[str, str]]:
    """Each line: the path of a file below tests/, and the name of a test, with or without the id of one case."""
    path = ""
    for line in LIST.read_text().splitlines():
        if line.startswith(" "):
            yield path, line.strip()
        else:
            path = line


def pytest_configure(config: pytest.Config) -> None:
    """Who names a test on the command line gets it."""
    if any("::" in argument for argument in config.args):
        config.option.markexpr = ""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what the list names, before it is decided by marks which tests are run."""
    nightly, paths, found = set(named()), set[str](), set[tuple[str, str]]()
    for item in items:
        path = item.path.relative_to(LIST.parent).as_posix()
        paths.add(path)
        names = {(path, item.name), (path, item.name.partition("[")[0])} & nightly
        found |= names
        if names:
            item.add_marker(pytest.mark.nightly)
    if not any("::" in argument for argument in config.args):
        # Else of some files one test was collected, and not the others.
        unmatched.update(line for line in nightly - found if line[0] in paths)
