"""Links that are declared under a name that was used before, and two at once that want the same namespaces."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from isthmus.errors import IsthmusError, PlanRefused
from isthmus.fabric.fabric import Fabric
from isthmus.kafka.client import Client
from isthmus.ledger.documents.kinds import ControllerDocument, PauseDocument
from isthmus.ledger.fencing import FencedWriter
from isthmus.ledger.log import append_once
from isthmus.ledger.topic import on_topic
from isthmus.memory import forgetting
from isthmus.memory.declared import DeclaredLink
from isthmus.memory.links import recollect
from isthmus.model.configuration import Configuration
from isthmus.model.gateways.synchrony import SYNC
from isthmus.model.links.declaration import ASYNC, Declaration, attachment
from isthmus.model.registers import MODE
from testing.links import interrupting
from testing.links.synchronous import Overtaken
from testing.patience import TERM_S
from testing.runs.declaring import both as both
from testing.runs.declaring import maps
from testing.verbs import AsyncDeclaredLinks

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


def test_of_two_that_attach_the_same_at_once_one_is_refused(both: Configuration, names: tuple[str, str]) -> None:
    """Each had looked before the other one wrote. What was refused is not attached, and both links can be used."""
    links, prefix = Fabric(both).declarations, f"{names[0]}."
    wanted = {
        name: maps(f"{prefix}{more}:{prefix}x-{more}")[0] for name, more in zip(names, ("", "more-"), strict=True)
    }
    for name in names:
        links.create(name, source="east", target="west", maps=maps(f"{name}-own-"), validate=False)
    have_looked = threading.Barrier(len(names))

    def attach(name: str) -> IsthmusError | None:
        def values(_: Declaration) -> dict[str, Any]:
            have_looked.wait(TERM_S)
            return {attachment(wanted[name]): True}

        return refused(lambda: asyncio.run(AsyncDeclaredLinks(both).change(name, values)))

    errors = at_once(attach, names)

    assert any(errors.values())
    for name, error in errors.items():
        others = {*names} - {name}
        assert error is None or any(f"by link {other}" in error.message and error.hint for other in others), error
        again = links.update(name, settings={"compaction_holes_max": 7})
        assert (wanted[name] in again.declaration.maps) is (error is None)


def test_of_two_that_become_synchronous_over_the_same_topics_at_once_one_is_refused(
    both: Configuration, names: tuple[str, str]
) -> None:
    """Each had looked before the other one wrote: acknowledgements would wait for one of both only."""
    links = Fabric(both).declarations
    for name in names:
        links.create(name, source="east", target="west", maps=maps(f"{names[0]}.:{name}-"), validate=False)
    have_looked = threading.Barrier(len(names))

    def become(name: str) -> IsthmusError | None:
        def values(_: Declaration) -> dict[str, Any]:
            have_looked.wait(TERM_S)
            return {MODE: SYNC}

        return refused(lambda: asyncio.run(AsyncDeclaredLinks(both).change(name, values)))

    errors = at_once(become, names)

    assert any(errors.values())
    for name, error in errors.items():
        assert error is None or ("wait for one follower" in error.message and error.hint), error
        assert links.describe(name).declaration.mode == (SYNC if error is None else ASYNC)
    links.update(names[0], settings={"compaction_holes_max": 7})


def test_no_link_becomes_synchronous_while_it_attaches(both: Configuration, names: tuple[str, str]) -> None:
    """Each had looked before the other one wrote: producers would wait for all that is still to be copied."""
    links, (name, more) = Fabric(both).declarations, names
    links.create(name, source="east", target="west", maps=maps(f"{name}."), validate=False)
    (wanted,) = maps(f"{more}.")
    changes: dict[str, dict[str, Any]] = {"attach": {attachment(wanted): True}, "become": {MODE: SYNC}}
    have_looked = threading.Barrier(len(changes))

    def change(verb: str) -> IsthmusError | None:
        def values(_: Declaration) -> dict[str, Any]:
            have_looked.wait(TERM_S)
            return changes[verb]

        return refused(lambda: asyncio.run(AsyncDeclaredLinks(both).change(name, values)))

    errors = at_once(change, ("attach", "become"))

    found = links.describe(name).declaration
    assert any(errors.values())
    assert all(error is None or error.hint for error in errors.values())
    assert (wanted in found.maps) is (errors["attach"] is None)
    assert found.mode == (SYNC if errors["become"] is None else ASYNC)


def test_nothing_is_attached_to_a_link_that_became_synchronous_since_it_was_checked(
    both: Configuration, names: tuple[str, str]
) -> None:
    """Whether something can be attached is looked at before it is written, which may take a while."""
    links, (name, more) = Fabric(both).declarations, names
    links.create(name, source="east", target="west", maps=maps(f"{name}."), validate=False)
    overtaken = Overtaken(both)
    overtaken.first = {MODE: SYNC}

    with pytest.raises(PlanRefused, match="is synchronous"):
        asyncio.run(overtaken.attach(name, maps(f"{more}.")))

    assert links.describe(name).declaration.maps == maps(f"{name}.")


def test_of_two_that_are_created_for_the_same_at_once_one_is_refused(
    both: Configuration, names: tuple[str, str]
) -> None:
    """There is no such link then, and it can be created once the other one is gone."""
    links, wanted = Fabric(both).declarations, maps(f"{names[0]}.")

    def create(name: str) -> IsthmusError | None:
        create = partial(links.create, name, source="east", target="west", maps=wanted, validate=False)
        return refused(create)

    errors = at_once(create, names)

    assert any(errors.values())
    assert {name for name, error in errors.items() if error is None} == {
        each.declaration.name for each in links.all() if each.declaration.name in names
    }
    again = next(name for name, error in errors.items() if error is not None)
    for name, error in errors.items():
        if error is None:
            links.delete(name)
    assert create(again) is None


def at_once(call: Callable[[str], IsthmusError | None], names: tuple[str, str]) -> dict[str, IsthmusError | None]:
    """What becomes of both, by name."""
    with ThreadPoolExecutor() as pool:
        return dict(zip(names, pool.map(call, names), strict=True))


def refused(call: Callable[[], object]) -> IsthmusError | None:
    """Why it was, if it was."""
    try:
        call()
    except PlanRefused as error:
        return error
    return None


def test_two_namespaces_do_not_follow_each_other(both: Configuration, names: tuple[str, str]) -> None:
    """Nobody could write to either: the way back is refused as long as the way there is attached. Ways that give names
    a prefix each may be declared.
    """
    links, prefix = Fabric(both).declarations, f"{names[0]}."
    create = partial(links.create, validate=False)
    create(names[0], source="east", target="west", maps=maps(prefix))
    with pytest.raises(PlanRefused, match=f"by link {names[0]}: each would follow"):
        create(names[1], source="west", target="east", maps=maps(f"{prefix}part."))
    create(names[1], source="west", target="east", maps=maps(f"{prefix}:{names[1]}.west."))


def test_what_begins_to_run_is_not_forgotten(
    both: Configuration, names: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A controller that begins while a link is being forgotten has its documents still, and whoever forgets is told."""
    link = names[0]
    target = both.cluster("west")

    async def begins(_: str, client: Client) -> bool:
        """A controller comes right after the look for one."""
        writer = FencedWriter(client, link)
        await on_topic(client, writer.take_over, replication_factor=None)
        document = ControllerDocument(link=link, generation=writer.generation, beat=1, started_ms=0)
        await writer.append([document])
        writer.close()
        return False

    async def remembers() -> int:
        async with Client(target) as client:
            await append_once(client, [PauseDocument(link=link, since_ms=0)], replication_factor=None)
            with monkeypatch.context() as patched:
                patched.setattr(forgetting, "is_run", begins)
                with pytest.raises(PlanRefused, match=f"began to run link {link} meanwhile"):
                    await forgetting.forget_link(client, link, both.ledger)
            return len((await recollect(link, client)).documents)

    assert asyncio.run(remembers()) == 2
