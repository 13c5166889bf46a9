"""Two real schema registries, shared by all tests here: give every subject a name of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from isthmus.local.apicurio import ApicurioServer


@pytest.fixture(scope="session")
def east_registry() -> Iterator[ApicurioServer]:
    """The registry that people write to."""
    with ApicurioServer.start() as server:
        yield server


@pytest.fixture(scope="session")
def west_registry() -> Iterator[ApicurioServer]:
    """Another one, which nobody writes to but us."""
    with ApicurioServer.start() as server:
        yield server
