"""Bodies of requests that declare links."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from isthmus.errors import ConfigError
from isthmus.fabric.fabric import Fabric
from testing.rest.asking import Served

Namer = Callable[[str], str]


@pytest.fixture
def name(topic: Namer, served: Served) -> Iterator[str]:
    """The name of a link that is deleted in the end, so that no other test runs it."""
    name = topic("declared")
    yield name
    try:
        Fabric(served.configuration).declarations.delete(name)
    except ConfigError:
        return


def body_of(name: str, **more: Any) -> dict[str, Any]:
    """A link of one namespace."""
    return {
        "link": name,
        "source": "east",
        "target": {"alias": "west"},
        "attached": [{"source": f"{name}.a-*", "target": f"{name}.x-*"}],
        **more,
    }
