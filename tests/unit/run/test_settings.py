"""The settings of a link that runs: which are in force, and from when on others are."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from isthmus.errors import Unreachable
from isthmus.ledger.documents.kinds import DeclarationDocument, Document, FiltersDocument, SettingsDocument
from isthmus.model.cluster import Cluster
from isthmus.model.link import Limits, Link
from isthmus.model.links.declaration import attachment
from isthmus.model.namespace import NamespaceMap, NamespaceNaming
from isthmus.model.registers import Author, change_registers
from isthmus.model.selection import TopicPattern, TopicSettings
from isthmus.run.following import change_of
from isthmus.run.settings import LinkSettings

EAST, WEST = (Cluster(alias=alias, bootstrap_servers=("127.0.0.1:1",)) for alias in ("east", "west"))
FIRST, SECOND, THIRD = (
    Link(name="l", source=EAST, target=WEST, topics=TopicSettings(include=(TopicPattern.parse(name),)))
    for name in ("a", "b", "c")
)


def settings(respect: Callable[[Link], Awaitable[None]], *documents: Document) -> LinkSettings:
    """Those of the first link, with what the ledger says."""
    ledger = SimpleNamespace(documents={each.key: each for each in documents})
    return LinkSettings(FIRST, cast(Any, ledger), respect)


def test_others_come_into_force_once_what_links_of_others_write_is_known() -> None:
    """What is written meanwhile comes with the next look, and what cannot be found out now is tried again."""
    asked: list[Link] = []

    async def scenario() -> None:
        async def respect(link: Link) -> None:
            asked.append(link)
            if len(asked) == 1:
                raise Unreachable("gone")
            if link == SECOND:
                found.follow(THIRD)

        found = settings(respect)
        assert await found.renew() is None
        found.follow(SECOND)
        with pytest.raises(Unreachable):
            await found.renew()
        assert found.link == FIRST
        assert [await found.renew(), await found.renew(), await found.renew()] == [SECOND, THIRD, None]
        assert found.link == THIRD

    asyncio.run(scenario())
    assert asked == [SECOND, SECOND, THIRD]


def test_what_is_detached_goes_at_once() -> None:
    """Whether or not it can be found out what others write of what is attached; that comes when it can."""
    first, second, third = map(NamespaceMap.parse, ("a-", "b-", "c-"))

    def attaching(*maps: NamespaceMap) -> Link:
        return replace(FIRST, topics=replace(FIRST.topics, naming=NamespaceNaming(maps)))

    async def respect(_: Link) -> None:
        raise Unreachable("gone")

    async def scenario() -> None:
        found = LinkSettings(attaching(first, second), cast(Any, SimpleNamespace(documents={})), respect)
        assert found.part() is None
        found.follow(attaching(second, third))
        assert found.part() == found.link == attaching(second)
        assert found.part() is None
        with pytest.raises(Unreachable):
            await found.renew()

    asyncio.run(scenario())


def test_what_the_ledger_says_is_detached_is_so() -> None:
    """Whoever looked at all clusters may have begun before: neither what begins by such a look nor what goes on by it
    copies into what was let go of.
    """
    first, second, third = map(NamespaceMap.parse, ("a-", "b-", "c-"))
    said = change_registers(
        (), {attachment(first): False, attachment(second): True}, Author(by="me", at_ms=1, where="w")
    )
    document = DeclarationDocument(link="l", cluster="w", registers=said)

    def attaching(*maps: NamespaceMap) -> Link:
        return replace(FIRST, topics=replace(FIRST.topics, naming=NamespaceNaming(maps)))

    async def respect(_: Link) -> None: ...

    async def scenario() -> None:
        documents: dict[str, Document] = {}
        found = LinkSettings(attaching(first, second), cast(Any, SimpleNamespace(documents=documents)), respect)
        assert found.part() is None
        documents[document.key] = document
        found.reread()
        assert found.part() == attaching(second)
        found.follow(attaching(first, second, third))
        assert await found.renew() == attaching(second, third)
        begun = LinkSettings(attaching(first, second), cast(Any, SimpleNamespace(documents=documents)), respect)
        assert begun.link == attaching(second)
        assert settings(respect, document).link == FIRST

    asyncio.run(scenario())


def test_what_is_detached_meanwhile_does_not_come() -> None:
    """It may take long to find out what others write of what is attached: whoever detaches it until then waits for
    what writes to it, and sees nothing yet.
    """
    first, second = map(NamespaceMap.parse, ("a-", "b-"))
    said = change_registers(
        (), {attachment(first): True, attachment(second): False}, Author(by="me", at_ms=1, where="w")
    )
    document = DeclarationDocument(link="l", cluster="w", registers=said)

    def attaching(*maps: NamespaceMap) -> Link:
        return replace(FIRST, topics=replace(FIRST.topics, naming=NamespaceNaming(maps)))

    async def scenario() -> None:
        documents: dict[str, Document] = {}

        async def respect(_: Link) -> None:
            documents[document.key] = document
            found.reread()
            assert found.part() is None

        found = LinkSettings(attaching(first), cast(Any, SimpleNamespace(documents=documents)), respect)
        found.follow(attaching(first, second))
        assert await found.renew() == attaching(first)
        assert found.link == attaching(first)

    asyncio.run(scenario())


def test_an_operator_s_filters_count_over_what_is_written() -> None:
    """From the first look on, and over settings that are written later."""

    async def respect(_: Link) -> None: ...

    async def scenario() -> None:
        found = settings(respect, FiltersDocument(link="l", topics_include=("x",), since_ms=1))
        assert found.link == FIRST
        filtered = await found.renew()
        assert filtered is not None
        assert [str(each) for each in filtered.topics.include] == ["x"]
        found.follow(replace(SECOND, topics_interval_s=7.0))
        again = await found.renew()
        assert again is not None
        assert (again.topics.include, again.topics_interval_s) == (filtered.topics.include, 7.0)

    asyncio.run(scenario())


def test_excluded_configurations_change_nothing_else() -> None:
    """So that neither topics nor groups nor leases begin anew for them: the link is the same but for that list."""

    async def respect(_: Link) -> None: ...

    async def scenario() -> None:
        found = settings(respect, FiltersDocument(link="l", configs_exclude=("retention.*",), since_ms=1))
        link = await found.renew()
        assert link is not None
        assert link.configs.is_excluded("retention.ms")
        assert replace(link, configs=FIRST.configs) == FIRST
        change = change_of(FIRST, link)
        assert (change.followed, change.waiting) == (("configs",), ())

    asyncio.run(scenario())


def test_an_operator_s_limits_and_mm2_count_over_what_is_written() -> None:
    """Beside filters, over what is written later, and so that no lease begins anew for them."""

    async def respect(_: Link) -> None: ...

    async def scenario() -> None:
        said = SettingsDocument(
            link="l", settings=(("limits.bytes_per_s", "5"), ("mm2.checkpoints", "true")), since_ms=1, by="ada@host"
        )
        found = settings(respect, FiltersDocument(link="l", topics_include=("x",), since_ms=1), said)
        link = await found.renew()
        assert link is not None
        assert (link.limits, link.mm2.checkpoints) == (Limits(bytes_per_s=5), True)
        assert [str(each) for each in link.topics.include] == ["x"]
        change = change_of(FIRST, link)
        assert (change.followed, change.waiting) == (("topics.include", "limits", "mm2"), ())
        found.follow(replace(FIRST, limits=Limits(bytes_per_s=7, bytes_in_flight=1 << 20)))
        again = await found.renew()
        assert again is not None
        assert again.limits == Limits(bytes_per_s=5, bytes_in_flight=1 << 20)

    asyncio.run(scenario())
