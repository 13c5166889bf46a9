"""Which links go on as the configuration changes."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from isthmus.fabric import async_fabric
from isthmus.fabric.async_fabric import AsyncFabric
from isthmus.model.cluster import Cluster
from isthmus.model.configuration import Configuration, SparkSettings
from isthmus.model.link import Link
from isthmus.model.links.outcome import RunOutcome
from isthmus.model.selection import TopicSettings
from isthmus.run.following import Following
from isthmus.run.supervisor import Supervisor
from isthmus.run.workers import Workers

EAST, WEST = (Cluster(alias=alias, bootstrap_servers=("127.0.0.1:1",)) for alias in ("east", "west"))
ORDERS = Link(name="orders", source=EAST, target=WEST, topics=TopicSettings(include=()))
FILE = Configuration(clusters=(EAST, WEST), links=())


def test_a_run_of_one_declared_link_follows_what_is_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a run of all links does: the file that is read again has no such link."""
    seen: list[Following] = []

    async def run_links(*_: object, following: Following, **__: Any) -> RunOutcome:
        seen.append(following)
        return RunOutcome(links=())

    monkeypatch.setattr(async_fabric, "run_links", run_links)
    declared = replace(FILE, links=(ORDERS,), declared=frozenset({"orders"}))
    asyncio.run(AsyncFabric(declared).run(link="orders", reread=lambda: FILE, follow_config=True))
    (following,) = seen
    assert following.written == FILE


def test_a_run_whose_last_link_is_gone_says_that_it_waits(caplog: pytest.LogCaptureFixture) -> None:
    """Once, and not a run that goes on with another link."""
    waits = "no link is left here: waiting until one is configured or declared"

    async def scenario() -> None:
        both = replace(FILE, links=(ORDERS, replace(ORDERS, name="clicks")))
        links = Supervisor(both, both.links, Workers(SparkSettings(), links=()))
        links.start()
        await links.take(replace(FILE, links=(ORDERS,)))
        assert waits not in caplog.messages
        await links.take(FILE)
        await links.take(FILE)
        assert not links.has_ended

    asyncio.run(scenario())
    assert caplog.messages.count(waits) == 1
