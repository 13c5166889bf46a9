"""Which controllers of other links are listened for."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import pytest

from isthmus.kafka.metadata import NO_TOPIC_ID, Metadata
from isthmus.ledger.documents.kinds import ControllerDocument, DeclarationDocument, TopicDocument
from isthmus.ledger.pulse import SILENCE_S
from isthmus.memory import others
from isthmus.memory.claims import Outflow
from isthmus.memory.links import LinkMemory, now_ms
from isthmus.model.cluster import Cluster
from isthmus.model.link import Link
from isthmus.model.links.declaration import SOURCE, TARGET, attachment
from isthmus.model.namespace import NamespaceMap, NamespaceNaming
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.registers import DELETED, SETTINGS, Author, change_registers
from isthmus.model.selection import TopicSettings

END = {"cluster_id": "id", "alias": "here"}
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

    async def read_ledger(_: object) -> Ledger:
        return Ledger()

    async def find_heard(_: object, before: Mapping[str, LinkMemory]) -> set[str]:
        listened.append(set(before))
        return set()

    monkeypatch.setattr(others, "read_ledger", read_ledger)
    monkeypatch.setattr(others, "find_heard", find_heard)
    there = Link(name="clicks", source=EAST, target=WEST, topics=TopicSettings(include=()))
    for free in ((), (there,), (replace(there, source=WEST, target=EAST),)):
        asyncio.run(others.neighbouring_claims([cast(Any, Target())], [], lambda _: True, free))
    assert listened == [{"clicks", "orders"}, {"orders"}, {"clicks", "orders"}]


@pytest.mark.parametrize(
    ("said", "is_certain"),
    [
        pytest.param({}, True, id="all of it"),
        pytest.param({f"{SETTINGS}topics.exclude": ["a-1"]}, False, id="not all of it"),
        pytest.param({f"{SETTINGS}limits.bytes_per_s": 9}, True, id="slowly"),
        pytest.param({DELETED: True}, False, id="deleted"),
        pytest.param({attachment(NamespaceMap.parse("a-:b-")): False}, False, id="detached"),
        pytest.param({SOURCE: END | {"cluster_id": "other"}}, False, id="from elsewhere"),
    ],
)
def test_declared_links_lead_out_of_a_cluster_whose_ledger_has_them(said: dict[str, Any], is_certain: bool) -> None:
    """Those that are attached, with all that is in their namespaces."""
    pair = NamespaceMap.parse("a-:b-")
    values = {SOURCE: END, TARGET: END | {"cluster_id": "far"}, attachment(pair): True} | said
    registers = change_registers((), values, Author(by="anna", at_ms=1, where="id"))
    document = DeclarationDocument(link="out", cluster="id", registers=registers)
    known = LinkMemory("out", documents={document.key: document})

    assert list(others.outflows([known, silent("orders")], "id")) == (
        [Outflow("out", "id", "far", NamespaceNaming((pair,)))] if is_certain else []
    )
