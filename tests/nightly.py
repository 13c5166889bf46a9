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
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what the list names, before it is decided by marks which tests are run."""
    nightly = set(named())
    for item in items:
        path = item.path.relative_to(LIST.parent).as_posix()
        if {(path, item.name), (path, item.name.partition("[")[0])} & nightly:
            item.add_marker(pytest.mark.nightly)
