"""What becomes of a lane when an append fails."""

from __future__ import annotations

import asyncio
import time
import uuid
from typing import Final

import pytest

from isthmus.engine.brokers.producer import ProducerIdentity
from isthmus.engine.engine import Engine
from isthmus.engine.reader import SourceReader
from isthmus.engine.run import LaneRun
from isthmus.engine.state.belief import TailCheck
from isthmus.engine.state.evidence import PATIENCE_S
from isthmus.engine.state.writer import AppendVerdict, Writer
from isthmus.kafka import codes
from isthmus.kafka.client import Client
from isthmus.kafka.log.fetch import Fetched
from isthmus.model.cluster import Cluster
from isthmus.model.kafka.rights import on_cluster
from isthmus.model.lane import Lane, LaneState
from isthmus.model.naming import SourceTopic, TargetTopic
from testing.records.stored import PLAIN, stored

LANE: Final = Lane(
    source_topic=SourceTopic("orders"),
    source_topic_id=uuid.uuid4(),
    target_topic=TargetTopic("orders"),
    target_topic_id=uuid.uuid4(),
    partition=0,
)
POLICY_VIOLATION: Final = 44
UNKNOWN_SERVER_ERROR: Final = -1


def judged(error_code: int, message: str | None = None) -> tuple[LaneRun, float]:
    """A lane at work whose append was answered so, and after how many seconds the log is looked at again."""

    async def scenario() -> tuple[LaneRun, float]:
        async with Client(Cluster(alias="nowhere", bootstrap_servers=("127.0.0.1:1",))) as client:
            producer = ProducerIdentity(producer_id=1, marker_producer_id=2)
            engine = Engine(source=client, target=client, producer=producer, link="link")
            run = LaneRun(LANE, Writer(abandoned=False))
            run.heal()
            now = time.monotonic()
            verdict = AppendVerdict.RECREATED if error_code == codes.UNKNOWN_TOPIC_ID else AppendVerdict.RESOLVE
            engine.faults.handle_verdict(run, verdict, error_code, message)
            return run, engine._resolver._due[run] - now

    return asyncio.run(scenario())


@pytest.mark.parametrize("code", [POLICY_VIOLATION, UNKNOWN_SERVER_ERROR, 12345])
def test_what_nobody_expects_is_told_and_tried_now_and_then(code: int) -> None:
    """An answer that has no meaning here blocks the lane with the broker's word, and the broker is not stormed."""
    run, after_s = judged(code, "not on a Sunday")
    assert run.state is LaneState.BLOCKED
    assert run.problem is not None
    assert codes.name_of(code) in run.problem.message
    assert "not on a Sunday" in run.problem.message
    assert "every few seconds" in run.problem.hint
    assert after_s > 2.0


@pytest.mark.parametrize(
    "code",
    [
        codes.NONE,
        codes.NOT_LEADER_OR_FOLLOWER,
        codes.REQUEST_TIMED_OUT,
        codes.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        codes.OUT_OF_ORDER_SEQUENCE_NUMBER,
        codes.INVALID_TXN_STATE,
        codes.CONCURRENT_TRANSACTIONS,
        codes.NOT_COORDINATOR,
        codes.UNKNOWN_TOPIC_ID,
        # Sent behind a batch that failed.
        codes.MESSAGE_TOO_LARGE,
        codes.INVALID_RECORD,
    ],
)
def test_what_passes_is_no_problem(code: int) -> None:
    """Answers that are ordinary when leaders move, or that the log has to explain, are looked into at once."""
    run, after_s = judged(code)
    assert (run.state, run.problem) == (LaneState.ACTIVE, None)
    assert after_s < 2.0


@pytest.mark.parametrize(
    ("code", "state", "word"),
    [
        (codes.INVALID_PRODUCER_EPOCH, LaneState.BLOCKED, "producer id"),
        (codes.OUT_OF_ORDER_SEQUENCE_NUMBER, LaneState.BLOCKED, "every few seconds"),
        (codes.NOT_LEADER_OR_FOLLOWER, LaneState.TARGET_UNAVAILABLE, "replicas"),
    ],
)
def test_what_does_not_pass_is_told_and_tried_less_often(code: int, state: LaneState, word: str) -> None:
    """An answer that comes again and again at one offset is a state, and the broker is not stormed meanwhile; what was
    sent behind it is refused too, and does not count.
    """

    async def scenario() -> None:
        async with Client(Cluster(alias="nowhere", bootstrap_servers=("127.0.0.1:1",))) as client:
            producer = ProducerIdentity(producer_id=1, marker_producer_id=2)
            engine = Engine(source=client, target=client, producer=producer, link="link")
            run = LaneRun(LANE, Writer(abandoned=False))
            run.heal()
            run.writer.placed(100)
            for _ in range(5):
                engine.faults.handle_verdict(run, AppendVerdict.RESOLVE, code)
            now = time.monotonic()
            assert (engine._resolver._due[run] - now < 0.1, run.report().state) == (True, LaneState.ACTIVE)
            for _ in range(9):
                engine._resolver._due.clear()
                engine.faults.handle_verdict(run, AppendVerdict.RESOLVE, code)
            assert 0.5 < engine._resolver._due[run] - time.monotonic() <= 1.0
            found = run.health.evidence.hindrance(now + PATIENCE_S)
            assert found is not None
            assert (found.state, codes.name_of(code) in found.problem.message) == (state, True)
            assert word in found.problem.hint

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("diverged_at", "code", "state", "is_doubted"),
    [
        (90, codes.NONE, LaneState.DIVERGED, False),
        (95, codes.NONE, LaneState.ACTIVE, True),
        (100, codes.NONE, LaneState.ACTIVE, True),
        (-1, codes.OFFSET_OUT_OF_RANGE, LaneState.ACTIVE, True),
    ],
    ids=["truncated", "only what was not copied", "epoch compacted away", "epoch never heard of"],
)
def test_what_a_source_makes_of_an_epoch(diverged_at: int, code: int, state: LaneState, is_doubted: bool) -> None:
    """A log that lacks what was copied has diverged; one that has not what was read, for other reasons, is compared."""

    async def scenario() -> None:
        async with Client(Cluster(alias="nowhere", bootstrap_servers=("127.0.0.1:1",))) as client:
            producer = ProducerIdentity(producer_id=1, marker_producer_id=2)
            engine = Engine(source=client, target=client, producer=producer, link="link")
            run = LaneRun(LANE, Writer(abandoned=False))
            run.heal()
            run.belief.believe(7)
            run.writer.position = 92
            run.intake.read_from(100, epoch=7)
            engine.faults.misread(run, Fetched(run.source, 100, code, -1, -1, diverged_at, [], b""))
            assert run.state is state
            assert (run.belief.check is TailCheck.CONTENT) is is_doubted
            assert (run in engine._resolver._due) is is_doubted
            if is_doubted:
                assert run.intake.read_epoch == -1

    asyncio.run(scenario())


def test_a_leader_that_sends_its_readers_away_is_named() -> None:
    """A lane that gets no records, but another replica to read from (KIP-392), says so and looks again later; one that
    gets records takes them, whatever else is named.
    """

    async def scenario() -> None:
        async with Client(Cluster(alias="nowhere", bootstrap_servers=("127.0.0.1:1",))) as client:
            producer = ProducerIdentity(producer_id=1, marker_producer_id=2)
            engine = Engine(source=client, target=client, producer=producer, link="link")
            run = LaneRun(LANE, Writer(abandoned=False))
            run.heal()
            run.intake.read_from(0)
            reader = SourceReader(1, engine, client.dial)
            reader.add(run, 0)
            answer = Fetched(run.source, 0, codes.NONE, 1, 0, -1, [], stored(0, [PLAIN]), preferred=2)
            reader._take(run, answer)
            assert (run.state, run.intake.read_offset, run in reader) == (LaneState.ACTIVE, 1, True)
            reader._take(run, answer._replace(offset=1, records=b""))
            assert (run.state, run in reader) == (LaneState.SOURCE_UNAVAILABLE, False)
            assert run.problem is not None
            assert "broker 1" in run.problem.message
            assert "replica 2" in run.problem.message
            assert "replica.selector.class" in run.problem.hint
            assert engine._resolver._due[run] - time.monotonic() > 2.0

    asyncio.run(scenario())


def test_what_a_coordinator_refuses_is_told_too() -> None:
    """An unexpected answer to a request about a transaction or control records counts like one to an append."""

    async def scenario() -> None:
        async with Client(Cluster(alias="nowhere", bootstrap_servers=("127.0.0.1:1",))) as client:
            producer = ProducerIdentity(producer_id=1, marker_producer_id=2)
            engine = Engine(source=client, target=client, producer=producer, link="link")
            for code, state in (
                (POLICY_VIOLATION, LaneState.BLOCKED),
                (codes.NOT_LEADER_OR_FOLLOWER, LaneState.TARGET_UNAVAILABLE),
            ):
                run = LaneRun(LANE, Writer(abandoned=False))
                run.heal()
                engine.faults.write_failed(run, codes.error_for(code, "writing markers", on_cluster("ALTER")))
                assert run.state is state
                assert run.problem is not None
                assert codes.name_of(code) in run.problem.message

    asyncio.run(scenario())
