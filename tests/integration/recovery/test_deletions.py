"""A topic of the target that goes with the source's: what has to be proven first, and what keeps it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from isthmus.errors import GateNotMet, IsthmusError, PlanRefused
from isthmus.kafka.admin.topics import known_deleted
from isthmus.kafka.client import Client
from isthmus.kafka.codes import NONE
from isthmus.ledger.documents.kinds import (
    DeletionDocument,
    Document,
    EndedPartition,
    LinkDocument,
    PauseDocument,
    TopicDocument,
)
from isthmus.ledger.log import append_once
from isthmus.ledger.records import Deletion
from isthmus.links.claiming import hold_claim
from isthmus.local import LocalCluster
from isthmus.memory.links import recollect
from isthmus.model.configuration import LedgerSettings
from isthmus.model.lane import LaneState
from isthmus.model.link import Link
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.problem import Problem
from isthmus.recovery.attachment import LinkAttachment
from isthmus.recovery.deleting import TopicDeleter, admit
from testing.brokers.acls import denied
from testing.groups import consumers
from testing.groups.carrying import records
from testing.records import topics
from testing.runs.running import ends, link_of

pytestmark = pytest.mark.integration
TopicNamer = Callable[[str], str]
PLAIN: Final = -1
"""The producer id of records that name none: here they are the link's own."""


class Remembered(NamedTuple):
    """What the ledger says."""

    topic: TopicDocument
    identity: LinkDocument
    said: DeletionDocument | None


@dataclass(frozen=True, slots=True)
class Scene:
    """A link of which the source has deleted `gone`, as its ledger tells; `stays` is still there."""

    link: Link
    source: Client
    target: Client
    gone: str
    current: dict[str, Link]

    def deleter(self, *, is_asked_for: bool = False) -> TopicDeleter:
        """Who deletes it."""
        attachment = LinkAttachment(
            current=lambda: self.current.get("link"), name=self.link.name, source=self.source, target=self.target
        )
        return TopicDeleter(
            link=self.link,
            attachment=attachment,
            topic=TargetTopic(self.gone),
            is_asked_for=is_asked_for,
            on_step=lambda _: None,
            quiet_s=0.0,
        )

    async def delete(self, *, is_asked_for: bool = False) -> None:
        """Look, and delete it."""
        deleter = self.deleter(is_asked_for=is_asked_for)
        copy = await deleter.examine()
        assert copy is not None
        async with hold_claim(self.target, self.link.name, LedgerSettings()) as claim:
            await deleter.delete(claim, copy)

    async def say(self, document: Any) -> None:
        """Have the ledger hold a document."""
        await append_once(self.target, [document], replication_factor=1)

    async def known(self) -> Remembered:
        """What the ledger knows of the topic that is gone."""
        documents = (await recollect(self.link.name, self.target)).documents
        topic, identity = documents[f"topic/{self.link.name}/{self.gone}"], documents[f"link/{self.link.name}"]
        assert isinstance(topic, TopicDocument)
        assert isinstance(identity, LinkDocument)
        said = documents.get(f"deletion/{self.link.name}/{self.gone}")
        announced = said if isinstance(said, DeletionDocument) and not said.is_withheld else None
        return Remembered(topic, identity, announced)

    async def is_kept(self, west: LocalCluster, error: type[IsthmusError], message: str) -> None:
        """See that it is not deleted, nor announced to be."""
        with pytest.raises(error, match=message):
            await self.delete()
        assert (await ends(west, self.gone))[0] >= 20
        assert (await self.known()).said is None


@asynccontextmanager
async def scene(east: LocalCluster, west: LocalCluster, stem: str, *, stay: int = 1) -> AsyncIterator[Scene]:
    """Topics that were mirrored, and one of them deleted at the source."""
    names = [f"{stem}.gone", *(f"{stem}.stays{number}" for number in range(stay))]
    link = replace(link_of(east.cluster(), west.cluster(), f"{stem}.*", name=stem), on_source_deleted="delete")
    for name in names:
        topics.create_both(east, west, name)
        for side in (east, west):
            topics.produce(side, name, records(20))
    async with Client(link.source) as source, Client(link.target) as target:
        here, there = await source.metadata(names), await target.metadata(names)
        identity = LinkDocument(
            link=stem,
            source_cluster_id=here.cluster_id or "",
            target_cluster_id=there.cluster_id or "",
            producer_id=PLAIN,
            marker_producer_id=PLAIN,
        )
        said = [
            TopicDocument(
                link=stem,
                source_topic=SourceTopic(name),
                source_topic_id=here.topics[name].topic_id,
                target_topic=TargetTopic(name),
                target_topic_id=there.topics[name].topic_id,
                state=LaneState.ACTIVE,
            )
            for name in names
        ]
        await append_once(target, [identity, *said], replication_factor=1)
        topics.delete(east, names[0])
        yield Scene(link, source, target, names[0], {"link": link})


def test_a_topic_whose_source_is_gone_is_deleted(east: LocalCluster, west: LocalCluster, topic: TopicNamer) -> None:
    """It is announced before, and written down after that, with what it held; nothing else is touched."""

    async def scenario() -> None:
        async with scene(east, west, topic("gone")) as found:
            await found.delete()
            assert await ends(west, found.gone) == [-1]
            assert await ends(west, f"{found.link.name}.stays0") == [20]
            said = (await found.known()).said
            assert said is not None
            assert (said.is_done, said.is_asked_for, said.offsets) == (True, False, 20)

    asyncio.run(scenario())


def test_what_went_with_many_is_kept_when_most_are_back(
    east: LocalCluster, west: LocalCluster, topic: TopicNamer
) -> None:
    """A source that was emptied and is filled again, but for one topic: that one is not deleted for having gone alone,
    unless it was back as well and went by itself then.
    """

    async def scenario() -> None:
        async with scene(east, west, topic("many"), stay=8) as found:
            stays = [f"{found.link.name}.stays{number}" for number in range(8)]
            for name in stays[:4]:
                topics.delete(east, name)
            await found.is_kept(west, PlanRefused, "5 topics of link .* that many are not deleted without being asked")
            await forget_topics(found.link.name, [TargetTopic(name) for name in stays[:4]], found)
            await found.is_kept(west, PlanRefused, "went at east together with many others")
            await admit(found.link.name, [TargetTopic(found.gone)], found.target)
            await found.delete()
            assert await ends(west, found.gone) == [-1]

    asyncio.run(scenario())


async def forget_topics(link: str, names: Collection[TargetTopic], found: Scene) -> None:
    """Have the link know nothing of them, as where they came back and are new topics."""
    keys = [f"topic/{link}/{name}" for name in names]
    await append_once(found.target, map(Deletion, keys), replication_factor=1)


def another(side: str) -> Callable[[Scene, Remembered], Document]:
    """The link's identity with something else in it."""
    if side == "source":
        return lambda _, known: replace(known.identity, source_cluster_id="elsewhere")
    return lambda _, known: replace(known.identity, producer_id=7)


ENDED: Final = EndedPartition(partition=0, state=LaneState.FOREIGN_WRITE, problem=Problem("somebody"))
SAID: Final[dict[str, tuple[Callable[[Scene, Remembered], Document], type[IsthmusError], str]]] = {
    "another source": (another("source"), PlanRefused, "mirrored from cluster"),
    "another producer": (another("producer"), PlanRefused, "did not write"),
    "another target topic": (
        lambda _, known: replace(known.topic, target_topic_id=known.topic.source_topic_id),
        PlanRefused,
        "not the one that was mirrored",
    ),
    "foreign write": (lambda _, known: replace(known.topic, ended=(ENDED,)), PlanRefused, "never had"),
    "paused": (
        lambda found, _: PauseDocument(link=found.link.name, topic=TargetTopic(found.gone), since_ms=1),
        GateNotMet,
        "paused",
    ),
    "mapped": (lambda _, known: replace(known.topic, is_mapped=True), PlanRefused, "mapped"),
}
"""What the ledger may say, and how it is refused then."""


@pytest.mark.parametrize("why", list(SAID))
def test_what_the_ledger_says_keeps_it(east: LocalCluster, west: LocalCluster, topic: TopicNamer, why: str) -> None:
    """It is found before anything is announced, and the topic stays with all it holds."""
    said, error, message = SAID[why]

    async def scenario() -> None:
        async with scene(east, west, topic("said")) as found:
            await found.say(said(found, await found.known()))
            await found.is_kept(west, error, message)

    asyncio.run(scenario())


def test_what_clusters_and_operators_say_keeps_it(east: LocalCluster, west: LocalCluster, topic: TopicNamer) -> None:
    """Another link that wrote it, a record of somebody else, a consumer at work, a topic of the name at the source, a
    link that is let go of or that deletes nothing more.
    """

    async def scenario() -> None:
        async with scene(east, west, topic("kept")) as found:
            known, group = await found.known(), f"{found.link.name}-readers"
            found.current["link"] = replace(found.link, on_source_deleted="keep")
            await found.is_kept(west, PlanRefused, "does not delete topics any more")
            found.current.clear()
            await found.is_kept(west, PlanRefused, "not run as it was")
            found.current["link"] = found.link
            consumers.commit(west, {group: {(found.gone, 0): 5}})
            with consumers.joined(west, group, found.gone):
                await found.is_kept(west, GateNotMet, "at work")
            await found.say(replace(known.topic, link=f"{found.link.name}-other"))
            await found.is_kept(west, PlanRefused, "has written topic")
            await append_once(
                found.target, [Deletion(f"topic/{found.link.name}-other/{found.gone}")], replication_factor=1
            )
            topics.produce(west, found.gone, records(1), enable_idempotence=True)
            await found.is_kept(west, PlanRefused, "did not write")
            topics.create(east, found.gone)
            await found.is_kept(west, PlanRefused, "not every broker")

    asyncio.run(scenario())


@pytest.mark.parametrize("why", ["written", "detached", "there again"])
def test_what_changes_before_the_deletion_keeps_it(
    east: LocalCluster, west: LocalCluster, topic: TopicNamer, why: str
) -> None:
    """All of it is asked once more behind the announcement."""

    async def scenario() -> None:
        async with scene(east, west, topic("late")) as found:
            deleter = found.deleter()
            copy = await deleter.examine()
            assert copy is not None
            if why == "written":
                topics.produce(west, found.gone, records(1))
            elif why == "detached":
                found.current.clear()
            else:
                topics.create(east, found.gone)
            async with hold_claim(found.target, found.link.name, LedgerSettings()) as claim:
                with pytest.raises((GateNotMet, PlanRefused)):
                    await deleter.delete(claim, copy)
            assert (await ends(west, found.gone))[0] >= 20
            said = (await found.known()).said
            assert said is not None
            assert not said.is_done

    asyncio.run(scenario())


def test_topics_that_go_all_at_once_are_asked_for(east: LocalCluster, west: LocalCluster, topic: TopicNamer) -> None:
    """A source that has nothing more of the link was perhaps emptied, or restored: an operator names what is meant."""

    async def scenario() -> None:
        async with scene(east, west, topic("all"), stay=0) as found:
            with pytest.raises(PlanRefused, match="not deleted without being asked"):
                await found.delete()
            assert await ends(west, found.gone) == [20]
            await found.delete(is_asked_for=True)
            assert await ends(west, found.gone) == [-1]

    asyncio.run(scenario())


def test_a_topic_that_may_not_be_seen_is_not_gone(secured: LocalCluster, topic: TopicNamer) -> None:
    """Nor is one whose id a broker still has under the name, nor one of which nobody knows the id."""
    name = topic("unseen")
    topics.create(secured, name)

    async def scenario() -> None:
        async with Client(secured.cluster()) as client:
            found = (await client.metadata([name])).topics[name]
            assert found.error_code == NONE
            asked = {name: found.topic_id}
            assert await known_deleted(client, asked) == frozenset()
            with denied(secured, ResourceType.TOPIC, name, AclOperation.DESCRIBE):
                assert await known_deleted(client, asked) == frozenset()
                topics.delete(secured, name)
                assert await known_deleted(client, asked) == frozenset(), "nobody who may not see it knows"
            assert await known_deleted(client, asked) == {name}

    asyncio.run(scenario())
