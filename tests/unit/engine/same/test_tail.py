"""What brokers say of single offsets, and what follows where they do not tell."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any, Final

import pytest

from isthmus.engine.brokers.producer import ProducerIdentity
from isthmus.engine.brokers.routes import Routes
from isthmus.engine.run import LaneRun
from isthmus.engine.same.aborts import NO_PRODUCER
from isthmus.engine.same.judgement import Sight
from isthmus.engine.same.tail import Judged, TailLook, Tails
from isthmus.engine.source import Bounds
from isthmus.engine.state.belief import TailCheck
from isthmus.errors import Unreachable, UnsupportedByBroker
from isthmus.kafka import codes
from isthmus.kafka.client import Client
from isthmus.kafka.log.listoffsets import Offset
from isthmus.kafka.log.tail import Found, NoBatch, Read
from isthmus.model.cluster import Cluster
from isthmus.model.kafka.rights import on_topic
from isthmus.model.lane import Lane, LaneState
from isthmus.model.naming import SourceTopic, TargetTopic
from testing.records.stored import PLAIN, marker, one, stored
from testing.values.looks import PRODUCER, Told, been_at, lane_of

NOWHERE: Final = Cluster(alias="nowhere", bootstrap_servers=("127.0.0.1:1",))
LANE: Final = Lane(
    source_topic=SourceTopic("orders"),
    source_topic_id=uuid.uuid4(),
    target_topic=TargetTopic("orders"),
    target_topic_id=uuid.uuid4(),
    partition=0,
)
LOOK: Final = TailLook(LANE, Sight(key=LANE.key, target=NOWHERE, position=16, source=Bounds(0, 100)), TailCheck.CONTENT)
"""Offset 15 is the last at the target."""
OUTSIDE: Final = codes.error_for(codes.OFFSET_OUT_OF_RANGE, "reading orders-0 at offset 15", on_topic("READ", "orders"))

RECORDS: Final = [PLAIN._replace(value=b"%d" % n) for n in range(6)]


def tails() -> Tails:
    """Whoever looks."""
    routes = Routes[Any](Client(NOWHERE))
    return Tails(routes, routes, ProducerIdentity(producer_id=1, marker_producer_id=2))


@pytest.mark.parametrize(
    "source",
    [
        Unreachable("away", hint="wait"),
        OUTSIDE,
        Read(NoBatch.DELETED, 16),
    ],
    ids=["silent", "out of range", "just deleted"],
)
def test_a_source_that_cannot_tell_makes_the_lane_wait(source: Found) -> None:
    """What the source does not say now is no proof of a foreign write."""
    judged = tails()._judge_by_source(LOOK, one(stored(10, RECORDS)), source, is_decided=True)
    assert judged.judgement.state is LaneState.SOURCE_UNAVAILABLE


@pytest.mark.parametrize(
    "target",
    [Unreachable("away", hint="wait"), OUTSIDE],
    ids=["silent", "out of range"],
)
def test_a_target_that_cannot_tell_makes_the_lane_wait(target: Found) -> None:
    """What the target does not show now is not believed."""
    judged = tails()._judge_target_end(LOOK, target)
    assert isinstance(judged, Judged)
    assert judged.judgement.state is LaneState.TARGET_UNAVAILABLE


def test_what_the_target_has_deleted_need_not_be_shown() -> None:
    """A log that is known to begin behind its last record is believed, and where it begins is kept."""
    judged = tails()._judge_target_end(LOOK, Read(NoBatch.DELETED, 16))
    assert isinstance(judged, Judged)
    assert judged.judgement.state is None
    assert judged.sight.target_start == 16


def checked(run: LaneRun, target: object, source: object) -> bool:
    """Whether the target's end is believed where both logs say this."""

    async def scenario() -> bool:
        async with Client(NOWHERE) as client:
            look = Tails(Told(client, source), Told(client, target), PRODUCER)
            return await look.check([run]) == [run]

    return asyncio.run(scenario())


@pytest.mark.parametrize("is_coordinator_s", [True, False])
def test_the_end_of_a_transaction_that_a_coordinator_wrote(is_coordinator_s: bool) -> None:
    """It may write it once more, so the lane asks before it goes on; ends that we wrote ourselves come once."""
    writer = 4711 if is_coordinator_s else PRODUCER.marker_producer_id
    run = lane_of(position=16)
    run.source_log.start, run.source_log.end = 0, 20
    run.belief.check = TailCheck.CONTENT
    there, here = one(marker(15, writer, commit=False)), one(marker(15, 7, commit=False))

    assert checked(run, Read(there, 0), Read(here, 0))

    assert run.transactions.ending == ({NO_PRODUCER, 7} if is_coordinator_s else set())
    assert run.belief.check is TailCheck.DONE


@pytest.mark.parametrize("producer_id", [PRODUCER.producer_id, 4711])
def test_an_end_that_the_source_does_not_have(producer_id: int) -> None:
    """A record at the end of the target is compared, whoever wrote it, where nobody vouches for it."""
    run = lane_of(position=16)
    run.source_log.start, run.source_log.end = 0, 20
    run.belief.check = TailCheck.CONTENT
    there = one(stored(10, RECORDS, producer_id=producer_id))
    here = one(stored(10, [PLAIN._replace(value=b"other")] * 6))

    assert not checked(run, Read(there, 0), Read(here, 0))

    assert run.state is LaneState.FOREIGN_WRITE


OURS: Final = PRODUCER.producer_id
OTHERS: Final = 4711


@pytest.mark.parametrize(
    ("been", "last", "first", "state"),
    [
        (12, OURS, OTHERS, LaneState.FOREIGN_WRITE),
        (12, OTHERS, OURS, LaneState.FOREIGN_WRITE),
        (12, OURS, OURS, LaneState.STARTING),
        (12, OURS, None, LaneState.TARGET_UNAVAILABLE),
        (None, OURS, OTHERS, LaneState.STARTING),
        (None, OTHERS, None, LaneState.STARTING),
        (16, OTHERS, None, LaneState.STARTING),
    ],
    ids=["behind it ours in flight", "last", "all ours", "not told", "unproven behind ours", "unproven", "proven"],
)
def test_what_others_wrote_beyond_the_source(been: int | None, last: int, first: int | None, state: LaneState) -> None:
    """It is found at the first look if it lies behind what the lane is known to have copied, though records of ours
    that were in flight end the log. What was never compared may be a copy that was made by another name, of a source
    that only lags: it is looked at again first. What was compared is the source's, whoever wrote it.
    """
    run = lane_of(position=16)
    run.source_log.start, run.source_log.end = 0, 12
    run.belief.check = TailCheck.CONTENT
    if been is not None:
        run.belief.believed_end, run.belief.is_known = been, been == 16

    async def scenario() -> None:
        async with Client(NOWHERE) as client:
            begin: Found = Unreachable("away")
            if first is not None:
                begin = Read(one(stored(10, RECORDS[:3], producer_id=first)), 0)
            target = Told(client, Read(one(stored(13, RECORDS[:3], producer_id=last)), 0), begin)
            await Tails(Told(client), target, PRODUCER).check([run])

    asyncio.run(scenario())
    assert run.state is state
    assert (run.belief.beyond is not None) is (been is None)


@pytest.mark.parametrize(
    ("end", "state"),
    [
        (Offset(0, 12), None),
        (Offset(0, -1), None),
        (UnsupportedByBroker("too old"), None),
        (Offset(0, 11), LaneState.DIVERGED),
        (Offset(0, 0), LaneState.DIVERGED),
        (Offset(codes.FENCED_LEADER_EPOCH, -1), LaneState.SOURCE_UNAVAILABLE),
        (Unreachable("away"), LaneState.SOURCE_UNAVAILABLE),
    ],
)
def test_a_source_that_lost_what_lies_before_a_milestone(end: object, state: LaneState | None) -> None:
    """Its leader epoch ends before the milestone: the lane has diverged, even where both logs end alike. A source that
    cannot tell now is asked again, one that never can is compared alone.
    """

    async def scenario() -> LaneRun:
        run = lane_of(position=16)
        run.source_log.end, run.belief.milestone = 100, been_at(run, 12)
        async with Client(NOWHERE) as client:
            source = Told(client, end, Read(one(marker(15, 99, commit=True)), 0))
            look = Tails(source, Told(client, Read(one(marker(15, 2, commit=True)), 0)), PRODUCER)
            await look.check([run])
        return run

    run = asyncio.run(scenario())
    assert run.state is (state or LaneState.STARTING)
    assert (run.belief.check is TailCheck.DONE) is (state is None)


@pytest.mark.parametrize("position", [15, 16])
def test_a_milestone_that_is_not_behind_needs_no_question(position: int) -> None:
    """Reading tells: the source holds the epoch of what comes before against its log."""

    async def scenario() -> list[LaneRun]:
        run = lane_of(position=position)
        run.source_log.end, run.belief.milestone = 100, been_at(run, 16)
        tail = Read(one(marker(position - 1, 2, commit=True)), 0)
        async with Client(NOWHERE) as client:
            return await Tails(Told(client, tail), Told(client, tail), PRODUCER).check([run])

    assert len(asyncio.run(scenario())) == 1
