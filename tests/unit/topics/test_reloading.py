"""Whether a run still has another transform than the file, by its ledger."""

from __future__ import annotations

import uuid
from dataclasses import replace

from isthmus.ledger.documents.kinds import ControllerDocument, Document, LeaseDocument
from isthmus.model.cluster import Cluster
from isthmus.model.lane import Lane
from isthmus.model.link import Link
from isthmus.model.links.transform import Transform
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.recordfunction import FunctionSource, RecordFunction
from isthmus.model.selection import TopicPattern, TopicSettings
from isthmus.topics.reloading import awaiting_reload

EAST, WEST = (Cluster(alias=name, bootstrap_servers=("127.0.0.1:1",)) for name in ("east", "west"))
FORMER, NEW = Transform(where="key IS NULL"), Transform(where="value IS NULL")
LINK = Link(
    name="l",
    source=EAST,
    target=WEST,
    topics=TopicSettings(include=(TopicPattern.parse("*"),)),
    transforms=(replace(NEW, topics=(TopicPattern.parse("orders"),)),),
)


def lane(topic: str, transform: str) -> Lane:
    return Lane(
        source_topic=SourceTopic(topic),
        source_topic_id=uuid.UUID(int=1),
        target_topic=TargetTopic(topic),
        target_topic_id=uuid.UUID(int=2),
        partition=0,
        is_mapped=bool(transform),
        transform=transform,
    )


def documents(*lanes: Lane, controller: int = 3) -> dict[str, Document]:
    """The ledger of a link with a controller of generation 3, and what a lease of some controller was told."""
    told: tuple[Document, ...] = (
        ControllerDocument(link="l", generation=3, beat=1, started_ms=0),
        LeaseDocument(link="l", slot=0, controller=controller, generation=1, revision=1, lanes=lanes),
    )
    return {each.key: each for each in told}


def test_a_run_with_another_transform_awaits_a_reload() -> None:
    """By the transforms that its lanes have, those that stay as they are included; earlier controllers do not count."""
    lanes = lane("orders", FORMER.digest), lane("plain", "")
    assert awaiting_reload(LINK, documents(*lanes)) == {"orders"}
    assert awaiting_reload(replace(LINK, transforms=(FORMER,)), documents(*lanes)) == {"plain"}
    assert not awaiting_reload(LINK, documents(lane("orders", NEW.digest), lane("plain", "")))
    assert not awaiting_reload(LINK, documents(*lanes, controller=2))
    assert not awaiting_reload(LINK, {})


def test_a_run_of_an_earlier_version_awaits_no_reload_for_its_id_alone() -> None:
    """It does not say which source its function has."""
    function = RecordFunction("rules", "clean")
    link = replace(LINK, transforms=(Transform(python=function.with_source(FunctionSource("now", ()))),))
    earlier = Transform(python=function).digest
    assert not awaiting_reload(link, documents(lane("orders", earlier)))
    assert awaiting_reload(link, documents(lane("orders", f"{earlier}-former")))
