"""What is waited for before a cluster leaves a tree."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from isthmus import config
from isthmus.errors import GateNotMet
from isthmus.kafka.client import Client
from isthmus.kafka.log.offsets import log_ranges
from isthmus.kafka.session import ClientSession
from isthmus.ledger.documents.kinds import Document, MapDocument, TopicDocument
from isthmus.ledger.log import append_once
from isthmus.ledger.topic import ensure_topic
from isthmus.local import LocalCluster
from isthmus.memory.declarations import Declarations
from isthmus.memory.switching import lacking, lost_there
from isthmus.model.lane import LaneKey
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.offsets import Cursor
from isthmus.trees import draining
from isthmus.trees.draining import check_drained
from testing.groups.carrying import records
from testing.patience import TERM_S
from testing.records import topics

pytestmark = pytest.mark.integration


def test_what_was_copied_of_another_log_is_not_drained(
    east: LocalCluster, west: LocalCluster, topic: Callable[[str], str]
) -> None:
    """That a distributor was further than a log is now says nothing where its source has created the topic anew since,
    or lost what was copied and has others in its place; nor does a target's log that lost what was sent there.
    """
    name, link = topic("drained"), topic("link")
    topics.create(east, name)
    topics.produce(east, name, records(10))
    key = (name, 0)

    async def scenario() -> None:
        async with Client(east.cluster()) as source, Client(west.cluster()) as target:
            await ensure_topic(target)
            topic_id = (await source.metadata([name])).topics[name].topic_id
            logs = (await log_ranges(source, [key])).all()
            epoch = logs[key].leader_epoch
            for copied, of, says in (
                (Cursor(9, 9, 9, source_epoch=epoch), topic_id, "has not got all of"),
                (Cursor(10, 10, 10, source_epoch=epoch), uuid.uuid4(), "that was there before, not this one"),
                (Cursor(12, 12, 12, source_epoch=epoch), topic_id, f"{source.cluster.alias} lost what"),
                (Cursor(12, 12, 12, source_epoch=epoch, left_out=2), topic_id, ""),
                (Cursor(10, 10, 10, source_epoch=epoch), topic_id, ""),
            ):
                await append_once(target, documents_of(link, name, of, copied), replication_factor=None)
                told = await lacking(source, target, link, logs)
                assert (says in told) if says else not told, (copied, told)
            sent = {LaneKey(TargetTopic(name), 0): Cursor(0, 12, 12)}
            assert "lost messages that were sent to it" in await lost_there(source, sent, logs)
            noted = {key: replace(logs[key], end=12)}
            assert "lost messages that were sent to it" in await lost_there(source, sent, noted), "it was cut off since"
            assert not await lost_there(source, {LaneKey(TargetTopic(name), 0): Cursor(0, 10, 10)}, logs)

    asyncio.run(scenario())


def documents_of(link: str, name: str, source_topic_id: uuid.UUID, cursor: Cursor) -> list[Document]:
    """What the ledger of a target has of one partition that was copied from a topic with this id."""
    target_topic_id = uuid.UUID(int=1)
    return [
        TopicDocument(
            link=link,
            source_topic=SourceTopic(name),
            source_topic_id=source_topic_id,
            target_topic=TargetTopic(name),
            target_topic_id=target_topic_id,
            state="ACTIVE",
        ),
        MapDocument(
            link=link,
            topic=TargetTopic(name),
            partition=0,
            segment="1",
            ordinal_begin=cursor.ordinal,
            ranges=(),
            cursor=cursor,
            begin=0,
            source_topic_id=source_topic_id,
            target_topic_id=target_topic_id,
        ),
    ]


def test_somebody_who_produces_now_and_then_is_noticed(
    east: LocalCluster, west: LocalCluster, topic: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cluster that leaves a tree is quiet once nobody has produced there for so long, topics that come meanwhile
    included, and not as soon as two looks found nothing.
    """
    name = topic("drained")
    topics.create(east, f"{name}-1")
    clusters = {"east": east.bootstrap_servers, "west": west.bootstrap_servers}
    configuration = config.parse(
        json.dumps(
            {
                "clusters": {alias: {"bootstrap_servers": at} for alias, at in clusters.items()},
                "trees": [{"name": name, "clusters": ["east", "west"], "topics": [f"{name}-*"]}],
            }
        )
    )
    (settings,), selected = configuration.trees, configuration.links[0].topics
    looks: asyncio.Queue[None] = asyncio.Queue()
    look: Any = draining._logs

    async def looked(*given: Any) -> Any:
        found = await look(*given)
        looks.put_nowait(None)
        return found

    monkeypatch.setattr(draining, "_logs", looked)

    async def drained(declarations: Declarations, quiet_s: float) -> None:
        await check_drained(declarations, settings.tree, "east", selected, quiet_s=quiet_s)

    def produced(written: str) -> None:
        if written not in topics.names(east):
            topics.create(east, written)
        topics.produce(east, written, records(1))

    async def scenario() -> None:
        async with ClientSession() as session:
            declarations = Declarations(configuration.clusters, session, configuration.ledger)
            await drained(declarations, 0.1)
            for looked_before, written in ((2, f"{name}-1"), (1, f"{name}-2")):
                while not looks.empty():
                    looks.get_nowait()
                checking = asyncio.create_task(drained(declarations, TERM_S))
                for _ in range(looked_before):
                    await looks.get()
                await asyncio.to_thread(produced, written)
                with pytest.raises(GateNotMet, match=f"a producer still writes to {written}-0 of east"):
                    await checking
                # As it is without them, until their records are everywhere.
                topics.delete(east, written)

    asyncio.run(scenario())
