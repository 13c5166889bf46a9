"""What is left of a link that ends: how much of the source may be missing, as far as its ledger tells."""

from __future__ import annotations

import uuid
from dataclasses import replace

from isthmus.control.links.leaving import left_of
from isthmus.control.links.memory import LinkMemory
from isthmus.ledger.documents import Document, LinkDocument, TopicDocument
from isthmus.ledger.lastknown import KnownNamesDocument
from isthmus.model.cluster import Cluster
from isthmus.model.lastknown import KnownLog, KnownNames, KnownTopic
from isthmus.model.link import Link
from isthmus.model.log import LogRange
from isthmus.model.namespace import NamespaceMap, NamespaceNaming
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.promotion import Promotion
from isthmus.model.selection import TopicPattern, TopicSettings

NO_ID = uuid.UUID(int=0)
LINK = Link(
    name="orders",
    source=Cluster(alias="east", bootstrap_servers=("127.0.0.1:1",)),
    target=Cluster(alias="west", bootstrap_servers=("127.0.0.1:2",)),
    topics=TopicSettings(include=(TopicPattern.parse("*"),), naming=NamespaceNaming((NamespaceMap.parse("a-:x-"),))),
)
NAMES = KnownNames(
    cluster_id="E",
    alias="east",
    link="orders",
    seen_ms=40_000,
    topics=(
        KnownTopic(name="a-2", replicas=1, logs=(KnownLog(0, 10, 60), KnownLog(1, -1, -1))),
        KnownTopic(name="b-9", replicas=1, logs=(KnownLog(0, 0, 5),)),
    ),
)


def topic(number: int) -> TopicDocument:
    """A topic that the link follows; no broker of the target has given it an id."""
    return TopicDocument(
        link="orders",
        source_topic=SourceTopic(f"a-{number}"),
        source_topic_id=NO_ID,
        target_topic=TargetTopic(f"x-{number}"),
        target_topic_id=NO_ID,
        state="IN_ERROR",
    )


def memory(*documents: Document) -> LinkMemory:
    """What the ledger says of the link."""
    return LinkMemory("orders", documents={each.key: each for each in documents})


def test_a_topic_that_the_target_does_not_have_is_missing_as_a_whole() -> None:
    """With all that its source was seen to hold, or as a whole of which nothing is known: it is not passed over."""
    begun = LinkDocument(
        link="orders", source_cluster_id="E", target_cluster_id="W", producer_id=1, marker_producer_id=2
    )
    known = memory(begun, topic(1), topic(2), topic(3), KnownNamesDocument(link="orders", names=NAMES))

    left = left_of(LINK, known, {("x-1", 0): LogRange(0, 20, 20)}, None, at_ms=50_000)

    assert [(each.topic, each.partition, each.missing_records, each.source_age_s) for each in left] == [
        ("x-1", 0, -1, None),
        ("x-2", 0, 50, 10.0),
        ("x-2", 1, -1, 10.0),
        ("x-3", -1, -1, None),
    ]
    found = Promotion(link="orders", verb="failover", namespaces=(), partitions=left)
    assert (found.missing_records, found.missing_s, found.unknown) == (50, 10.0, "1 whole topic and 2 partitions")
    assert [each["partition"] for each in found.as_dict()["partitions"]] == [0, 0, 1, None]


def test_what_the_source_says_now_is_all_there_is() -> None:
    """A topic that it has no more keeps nobody from being promoted, whatever was seen of it."""
    known = memory(topic(1), topic(3), KnownNamesDocument(link="orders", names=NAMES))
    (left,) = left_of(LINK, known, {("x-1", 0): LogRange(0, 20, 20)}, {("a-1", 0): LogRange(5, 30, 30)}, at_ms=1)
    assert (left.missing_records, left.source_age_s) == (10, 0.0)
    assert Promotion(link="orders", verb="promote", namespaces=(), partitions=(left,)).unknown == ""
    assert replace(left, missing_records=0).as_dict()["missing_records"] == 0
