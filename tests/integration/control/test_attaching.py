"""Links that are declared under a name that was used before, and two at once that want the same namespaces."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from isthmus.control.fabric import Fabric
from isthmus.control.links.declared import DeclaredLink
from isthmus.control.links.declaring import AsyncDeclaredLinks
from isthmus.model.configuration import Configuration
from tests.integration.control import interrupting
from tests.integration.control.test_declared import both as both
from tests.integration.control.test_declared import maps

pytestmark = pytest.mark.integration


@pytest.fixture
def names(topic: Callable[[str], str], both: Configuration) -> Iterator[tuple[str, str]]:
    """The names of two links that are deleted in the end, so that no other test runs them."""
    names = topic("attaching"), topic("attaching")
    yield names
    links = Fabric(both).declarations
    for link in links.all():
        if link.declaration.name in names:
            links.delete(link.declaration.name)


def test_a_name_is_used_again(both: Configuration, names: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the link that had it nothing is left, and creation that ends before any of its steps is gone on with."""
    name, links = names[0], AsyncDeclaredLinks(both)
    create = partial(links.create, name, source="east", target="west", validate=False)
    settings, wanted = {"compaction_holes_max": 9}, maps(f"{name}.a-:{name}.x-")

    async def again() -> tuple[DeclaredLink, list[str]]:
        former = {"on_data_gap": "continue", "topics.exclude": [f"{name}.former-tmp"], "compaction_holes_max": 7}
        await create(maps=maps(f"{name}.former-"), settings=former)
        await links.update(name, settings={"on_data_gap": None})
        await links.delete(name)
        return await interrupting.finished(lambda _: create(maps=wanted, settings=settings), monkeypatch)

    found, steps = asyncio.run(again())

    assert [step for step in steps if step.startswith(f"writing {name} ")], steps
    assert (found.declaration.settings, found.declaration.maps, found.behind) == (settings, wanted, ())
