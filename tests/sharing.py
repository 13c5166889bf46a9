"""In which order tests run, and how long what they share is kept: idle brokers cost processor time too.

Ledgers are kept for a file: what its tests have left there would be part of what the next one's see.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import pytest
from _pytest.fixtures import SubRequest  # what fixtures are set up with, and ended by

from isthmus.ledger.topic import LEDGER_TOPIC
from isthmus.local import LocalCluster
from isthmus.local.apicurio import ApicurioServer
from testing.records import topics

COSTLY: Final = ("west3", "east3", "guarded", "secured", "east", "west")
"""Fixtures by what it takes to keep them, the most first."""

_FILES: Final = pytest.StashKey[dict[Path, list[pytest.Item]]]()
_RUNNING: Final = pytest.StashKey[dict["pytest.FixtureDef[Any]", SubRequest]]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Within a folder, files that need the same clusters follow one another."""
    ordered: list[pytest.Item] = []
    for _, folder in groupby(items, key=lambda item: item.path.parent):
        files = [list(file) for _, file in groupby(folder, key=lambda item: item.path)]
        files.sort(key=lambda file: [name not in _needs(file) for name in COSTLY])
        ordered += (item for file in files for item in file)
    items[:] = ordered


def pytest_collection_finish(session: pytest.Session) -> None:
    """Which tests each file has, of those that are run."""
    files = session.stash.setdefault(_FILES, {})
    for item in session.items:
        files.setdefault(item.path, []).append(item)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any], request: SubRequest) -> Generator[None, object, object]:
    """Remember the servers that are kept for a whole session."""
    value = yield
    if fixturedef.scope == "session" and isinstance(value, LocalCluster | ApicurioServer):
        request.session.stash.setdefault(_RUNNING, {})[fixturedef] = request
    return value


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """End the servers that no test asks for that is still to come in this file, or in the next one. Forget what those
    that stay have in their ledgers, before the next file.

    Tests and fixtures ask by the names of their arguments: what they get otherwise may be ended while they use it.
    """
    value = yield
    running = item.session.stash.get(_RUNNING, {})
    if running:
        coming = _coming(item.session.stash[_FILES], item, nextitem)
        for fixture in [each for each in running if not any(_asks(test, each) for test in coming)]:
            fixture.finish(running.pop(fixture))
        if nextitem is not None and nextitem.path != item.path:
            for fixture, request in running.items():
                _forget(request.getfixturevalue(fixture.argname))
    return value


def _forget(server: object) -> None:
    """Delete the ledger: links that the tests of one file have declared are none of the next one's."""
    if isinstance(server, LocalCluster) and LEDGER_TOPIC in topics.names(server):
        topics.delete(server, LEDGER_TOPIC)


def _coming(
    files: dict[Path, list[pytest.Item]], item: pytest.Item, nextitem: pytest.Item | None
) -> Sequence[pytest.Item]:
    """The tests that this process will run next, as far as it can know: it is given tests by whole files."""
    if nextitem is None:
        return ()
    tests = files[nextitem.path]
    return tests[tests.index(nextitem) :] if nextitem.path == item.path else tests


def _asks(test: pytest.Item, fixture: pytest.FixtureDef[Any]) -> bool:
    return test.nodeid.startswith(fixture.baseid) and fixture.argname in _needs([test])


def _needs(tests: Sequence[pytest.Item]) -> set[str]:
    return {name for test in tests for name in getattr(test, "fixturenames", ())}
