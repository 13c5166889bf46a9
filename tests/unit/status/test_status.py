"""How links stand while a cluster does not answer."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pytest

from isthmus.kafka import codes
from isthmus.kafka.client import Client
from isthmus.kafka.log.listoffsets import PartitionKey
from isthmus.kafka.metadata import NO_TOPIC_ID, Metadata, TopicMetadata
from isthmus.lanes.waiting import ASKED_MAX
from isthmus.ledger.documents.kinds import ControllerDocument, Document, ProgressDocument, encode_document
from isthmus.ledger.records import Entry
from isthmus.memory.links import HEARING_S, LinkMemory, now_ms
from isthmus.model.cluster import Cluster
from isthmus.model.kafka.log import LogRange
from isthmus.model.lane import LaneKey, LaneReport, LaneState
from isthmus.model.link import Link
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.problem import Problem
from isthmus.model.selection import TopicPattern, TopicSettings
from isthmus.status import status

EAST = Cluster(alias="east", bootstrap_servers=("127.0.0.1:1",))
WEST = Cluster(alias="west", bootstrap_servers=("127.0.0.1:2",))
LINK = Link(name="east-west", source=EAST, target=WEST, topics=TopicSettings(include=(TopicPattern.parse("orders"),)))


class Slow(Client):
    """A client of a cluster that answers nothing, perhaps as a quota is used up."""

    def __init__(self, cluster: Cluster, *, muted_until: float = -math.inf) -> None:
        super().__init__(cluster)
        self._muted_until = muted_until

    @property
    def muted_until(self) -> float:
        return self._muted_until

    async def metadata(self, *_: Any, **__: Any) -> Metadata:
        await asyncio.Event().wait()
        raise AssertionError


@pytest.mark.parametrize(
    ("muted_s", "why"), [(60.0, "a client quota holds its answers back"), (-60.0, "its brokers are slow, or hang")]
)
def test_a_look_ends_although_a_cluster_does_not_answer(muted_s: float, why: str) -> None:
    """Each cluster is away then, with the reason; a quota is named as one."""

    async def look() -> status._Reading:
        until = time.monotonic() + muted_s
        async with Slow(EAST, muted_until=until) as source, Slow(WEST, muted_until=until) as target:
            reading = status._Reading(LINK, LinkMemory("east-west"), patience_s=0.05)
            await reading.take(source, target, None)
            return reading

    reading = asyncio.run(look())
    for side, alias in ((reading.source, "east"), (reading.target, "west")):
        assert side.problem is not None
        assert side.problem.message == f"{alias} did not answer within 0.05 s: {why}"
        assert "isthmus doctor" in side.problem.hint


@pytest.mark.parametrize(("code", "end"), [(codes.UNKNOWN_TOPIC_OR_PARTITION, 0), (codes.LEADER_NOT_AVAILABLE, -1)])
def test_only_a_topic_that_is_not_there_is_known_to_be_empty(code: int, end: int) -> None:
    """A broker that cannot tell of a topic says nothing about its end."""
    reading, lane = status._Reading(LINK, LinkMemory("east-west")), LaneKey(TargetTopic("orders"), 0)
    reading.sources = {lane.topic: SourceTopic("orders")}
    reading.target.topics = {"orders": TopicMetadata("orders", NO_TOPIC_ID, (), code, is_internal=False)}
    assert status._ends(reading, lane, None).target.offset == end


def test_what_is_held_back_for_long_is_asked_about_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many transactions that follow one another hide none that stays open."""
    asked: list[PartitionKey] = []

    async def record_times(_: Client, offsets: Mapping[PartitionKey, int]) -> dict[PartitionKey, int]:
        assert len(offsets) <= ASKED_MAX
        return dict(offsets)

    async def holders(_: Client, held: Collection[PartitionKey]) -> tuple[()]:
        asked.extend(held)
        return ()

    monkeypatch.setattr(status, "record_times", record_times)
    monkeypatch.setattr(status, "holders", holders)
    stuck = (SourceTopic("orders"), ASKED_MAX)
    before, reading = (status._Reading(LINK, LinkMemory("east-west")) for _ in range(2))
    keys = [(SourceTopic("orders"), number) for number in range(ASKED_MAX + 1)]
    before.source.ranges = {key: LogRange(0, 5, 10) for key in keys}
    reading.source.ranges = {key: LogRange(0, 5 if key == stuck else 6, 10) for key in keys}
    asyncio.run(reading._hold(Slow(EAST), before))
    assert asked == [stuck]
    assert reading.waiting_times[stuck] == 5


def test_how_old_the_last_seen_end_of_a_source_is() -> None:
    """It is as old as the source was last heard, at most: a lane that tells of a silent source heard nothing."""
    lane, silent_s = LaneKey(TargetTopic("orders"), 0), 60.0
    began_ms = now_ms() - int(1000 * silent_s)
    states = (LaneState.ACTIVE, LaneState.SOURCE_UNAVAILABLE, LaneState.SOURCE_UNAVAILABLE)

    def documents(heard_ms: int = -1) -> list[Document]:
        return [
            ControllerDocument(link=LINK.name, generation=1, beat=1, started_ms=0),
            *(
                ProgressDocument(
                    link=LINK.name,
                    slot=0,
                    controller=1,
                    generation=1,
                    is_full=False,
                    reports=(LaneReport(key=lane, state=state, position=3, source_end=5, heard_ms=heard_ms),),
                )
                for state in states
            ),
        ]

    def age(written: Sequence[Document], at_ms: Sequence[int]) -> float | None:
        entries = [
            Entry(offset, each.key, encode_document(each), at)
            for offset, (each, at) in enumerate(zip(written, at_ms, strict=True))
        ]
        reading = status._Reading(LINK, LinkMemory.of(LINK.name, entries))
        reading.sources = {lane.topic: SourceTopic("orders")}
        reading.source.problem = Problem("east does not answer", "")
        found = status._partition(reading, None, lane, status._ends(reading, lane, None))
        assert found.source_end == 5
        assert found.age_s < math.inf
        return found.source_end_age_s

    now = now_ms()
    told = age(documents(), [began_ms, began_ms, now - 1000, now])
    assert told is not None
    assert silent_s <= told <= silent_s + 2 * HEARING_S
    assert age(documents(now + 60_000), [began_ms, began_ms, now - 1000, now]) is None, "that clock is ahead of ours"
