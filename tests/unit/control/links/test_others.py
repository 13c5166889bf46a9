"""Which controllers of other links are listened for."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import pytest

from isthmus.control.links import others
from isthmus.control.links.memory import LinkMemory, now_ms
from isthmus.ledger.documents import ControllerDocument, TopicDocument
from isthmus.ledger.link import SILENCE_S
from isthmus.model.cluster import Cluster
from isthmus.model.link import Link
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.selection import TopicSettings
from isthmus.wire.metadata import NO_TOPIC_ID, Metadata

EAST, WEST = (Cluster(alias=alias, bootstrap_servers=("127.0.0.1:1",)) for alias in ("east", "west"))


def silent(link: str) -> LinkMemory:
    """A link whose controller was heard twenty seconds ago, and writes a topic."""
    topic = TopicDocument(
        link=link,
        source_topic=SourceTopic("orders"),
        source_topic_id=NO_TOPIC_ID,
        target_topic=TargetTopic("orders"),
        target_topic_id=NO_TOPIC_ID,
        state="ACTIVE",
    )
    controller = ControllerDocument(link=link, generation=1, beat=1, started_ms=0, host="elsewhere", pid=1)
    known = LinkMemory(link, documents={topic.key: topic}, controller=controller)
    known.heard_ms = now_ms() - int(2000 * SILENCE_S)
    return known


class Ledger:
    """What the ledger of a cluster says of two links."""

    links = ("clicks", "orders")

    def of(self, link: str) -> LinkMemory:
        return silent(link)


class Target:
    """A cluster that only tells which one it is."""

    cluster = WEST

    async def metadata(self) -> Metadata:
        return Metadata("id", -1, {}, {})


def test_who_was_listened_for_is_not_listened_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that has found a link free does not wait for its former controller when it opens another link. One of
    that name into another cluster is another one.
    """
    listened: list[set[str]] = []

    async def remembered(_: object) -> Ledger:
        return Ledger()

    async def heard(_: object, before: Mapping[str, LinkMemory]) -> set[str]:
        listened.append(set(before))
        return set()

    monkeypatch.setattr(others, "remembered", remembered)
    monkeypatch.setattr(others, "heard", heard)
    there = Link(name="clicks", source=EAST, target=WEST, topics=TopicSettings(include=()))
    for free in ((), (there,), (replace(there, source=WEST, target=EAST),)):
        asyncio.run(others.neighbouring_claims([cast(Any, Target())], [], lambda _: True, free))
    assert listened == [{"clicks", "orders"}, {"orders"}, {"clicks", "orders"}]
