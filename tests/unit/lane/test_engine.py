"""What the engine makes of answers, without brokers."""

from __future__ import annotations

import asyncio
import uuid

import pytest

from isthmus.errors import Unreachable
from isthmus.lane.engine import Engine
from isthmus.lane.pieces import Piece
from isthmus.lane.producer import ProducerIdentity
from isthmus.lane.rebatch import Record, encode
from isthmus.lane.run import LaneRun
from isthmus.model.cluster import Cluster
from isthmus.model.lane import Lane, LaneState
from isthmus.wire import codes
from isthmus.wire.client import Client
from isthmus.wire.fetch import Fetched

LANE = Lane(
    source_topic="orders",
    source_topic_id=uuid.uuid4(),
    target_topic="orders",
    target_topic_id=uuid.uuid4(),
    partition=0,
)


def written(engine: Engine) -> LaneRun:
    """A lane whose one batch is on its way to the target."""
    engine.add([LANE])
    run = engine._runs[LANE.key]
    batch = encode([Record(0, 1, None, b"v", [])], 0)
    run.is_placed, run.state = True, LaneState.ACTIVE
    run.read_from(0)
    run.offer(iter([Piece(batch, is_plain=True, is_aborted=False)]))
    return run


@pytest.mark.parametrize("state", [LaneState.NOT_AUTHORIZED, LaneState.SOURCE_UNAVAILABLE])
def test_what_was_written_before_does_not_hide_that_the_source_cannot_be_read(state: LaneState) -> None:
    """A lane whose source is refused or away says so, although an append of what was read before it succeeds later."""

    async def scenario() -> None:
        nowhere = Cluster(alias="nowhere", bootstrap_servers=("127.0.0.1:1",))
        async with Client(nowhere) as client:
            producer = ProducerIdentity(producer_id=1, marker_producer_id=2)
            engine = Engine(source=client, target=client, producer=producer, link="link")
            run = written(engine)
            if state is LaneState.NOT_AUTHORIZED:
                refused = Fetched(run.source, 1, codes.TOPIC_AUTHORIZATION_FAILED, -1, -1, -1, [], b"")
                engine.faults.misread(run, refused)
            else:
                engine.faults.source_lost([run], Unreachable("away", cluster="nowhere"))
            engine.advanced(run, 1, 1)
            assert (run.state, run.tally.records) == (state, 1)

    asyncio.run(scenario())


def test_a_lane_that_comes_back_goes_on_counting() -> None:
    """What it copied before a pause, and what is answered only after it, is in the report when it runs again."""

    async def scenario() -> None:
        nowhere = Cluster(alias="nowhere", bootstrap_servers=("127.0.0.1:1",))
        async with Client(nowhere) as client:
            producer = ProducerIdentity(producer_id=1, marker_producer_id=2)
            engine = Engine(source=client, target=client, producer=producer, link="link")
            former = written(engine)
            engine.remove([LANE.key])
            engine.add([LANE])
            engine.advanced(former, 1, 1)
            again = written(engine)
            engine.advanced(again, 1, 1)
            (report,) = engine.reports()
            assert (again is former, report.state, report.records) == (False, LaneState.ACTIVE, 2)
            assert report.size_bytes > 2

    asyncio.run(scenario())
