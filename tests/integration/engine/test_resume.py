"""An engine goes on where the one before it stopped, however that ended, and tells when it must not."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import pytest

from isthmus.engine.outlook import Doubt
from isthmus.model.lane import Gap, LaneKey, LaneReport, LaneState
from isthmus.model.naming import TargetTopic
from testing.records import oracle, topics
from testing.records.transactions import end_without_data, interleave
from testing.records.trickle import trickling
from testing.runs.mirror import Mirror, all_are, caught_up

pytestmark = pytest.mark.integration

TopicNamer = Callable[[str], str]


@pytest.mark.parametrize("old", [True, False], ids=["old timestamps", "live"])
def test_engines_cut_off_anywhere(mirror: Mirror, topic: TopicNamer, chance: random.Random, old: bool) -> None:
    """Engines that end at random moments while records keep coming leave no gap, no copy and no disorder."""
    name = topic("cut")
    stamped_by = "CreateTime" if old else "LogAppendTime"
    topics.create(mirror.source, name, partitions=3, message_timestamp_type=stamped_by)
    topics.create(mirror.target, name, partitions=3)

    async def cut_off() -> None:
        async with mirror.running(name) as running:
            await running.until(lambda reports: any(report.position >= 0 for report in reports.values()), look_s=0)
            await asyncio.sleep(chance.random() * 0.3)
            await running.engine.stop(drain_s=0.0)

    with trickling(mirror.source, name, chance, partitions=3):
        for _ in range(8):
            asyncio.run(cut_off())
    mirror.copy(name)

    assert oracle.assert_same(mirror.source, mirror.target, name, partitions=3, same_timestamp_type=old) > 0


def test_handed_over_in_good_order(mirror: Mirror, topic: TopicNamer, chance: random.Random) -> None:
    """Engines that follow one another, each stopped in order, need not settle and lose nothing."""
    name = topic("released")
    topics.create_both(mirror.source, mirror.target, name, partitions=2)

    async def term(*, abandoned: bool) -> bool:
        async with mirror.running(name, engine={"abandoned": abandoned, "settle_s": 60.0}) as running:
            await running.until(lambda reports: all(report.position >= 0 for report in reports.values()))
            await asyncio.sleep(chance.random() * 0.3)
            await running.engine.stop(drain_s=60.0)
            return not running.engine.lanes.is_clean

    with trickling(mirror.source, name, chance, partitions=2):
        abandoned = False
        for _ in range(5):
            abandoned = asyncio.run(term(abandoned=abandoned))
            assert not abandoned
    mirror.copy(name, engine={"abandoned": False})

    oracle.assert_same(mirror.source, mirror.target, name, partitions=2)


@pytest.mark.parametrize("ending", ["a record", "an aborted record", "a control record"])
def test_lost_ledger(mirror: Mirror, topic: TopicNamer, chance: random.Random, ending: str) -> None:
    """Other producer ids find by content that the target is their own and go on."""
    name = topic("lost")
    topics.create_both(mirror.source, mirror.target, name)
    interleave(mirror.source, name, chance, steps=20, producers=2)
    topics.produce(mirror.source, name, topics.some(3, chance))
    if ending == "a control record":
        end_without_data(mirror.source, name, commit=True)
    mirror.copy(name)
    mirror.forget()
    interleave(mirror.source, name, chance, steps=20, producers=2)
    if ending == "an aborted record":
        mirror.copy_with_crashes(name, chance, crashes=3)
        mirror.forget()

    mirror.copy(name)

    oracle.assert_same(mirror.source, mirror.target, name)


@pytest.mark.parametrize("forgetful", [False, True], ids=["same ids", "other ids"])
@pytest.mark.parametrize("at", ["the beginning", "the end"])
def test_foreign_records(mirror: Mirror, topic: TopicNamer, chance: random.Random, at: str, forgetful: bool) -> None:
    """Records of somebody else in the target end the lane before anything is written behind them."""
    name = topic("foreign")
    topics.create_both(mirror.source, mirror.target, name)
    topics.produce(mirror.source, name, topics.some(20, chance))
    if at == "the end":
        mirror.copy(name)
        topics.produce(mirror.source, name, topics.some(20, chance))
    topics.produce(mirror.target, name, topics.some(5, chance))
    before = oracle.ends(mirror.target.admin_bootstrap_servers, name)
    if forgetful:
        mirror.forget()

    (report,) = mirror.copy(name, until=all_are(LaneState.FOREIGN_WRITE)).values()

    assert report.problem is not None
    assert "Deny WRITE" in report.problem.hint
    assert oracle.ends(mirror.target.admin_bootstrap_servers, name) == before


def test_foreign_records_the_source_does_not_reach_yet(
    mirror: Mirror, topic: TopicNamer, chance: random.Random
) -> None:
    """An end that nobody ever compared, as the source has nothing there, is told by who wrote it after some looks: the
    source may only lag.
    """
    name = topic("foreign")
    topics.create_both(mirror.source, mirror.target, name)
    topics.produce(mirror.source, name, topics.some(20, chance))
    mirror.copy(name)
    topics.produce(mirror.target, name, topics.some(5, chance))
    before = oracle.ends(mirror.target.admin_bootstrap_servers, name)

    async def scenario() -> None:
        async with mirror.running(name, engine={"doubt": Doubt(looks=3, pause_s=0.05)}) as running:
            await running.until(all_are(LaneState.FOREIGN_WRITE), may_end=True)

    asyncio.run(scenario())

    assert oracle.ends(mirror.target.admin_bootstrap_servers, name) == before


@pytest.mark.parametrize("idle", [True, False], ids=["idle", "busy"])
def test_foreign_write_during_the_run(mirror: Mirror, topic: TopicNamer, chance: random.Random, idle: bool) -> None:
    """A foreign write is noticed at the next record, the other lanes go on, and the next engine notices it too."""
    name, other = topic("foreign"), topic("other")
    for each in (name, other):
        topics.create_both(mirror.source, mirror.target, each)
        topics.produce(mirror.source, each, topics.some(20, chance))
    key = LaneKey(TargetTopic(name), 0)

    async def scenario() -> None:
        async with mirror.running(name, other) as running:
            await running.until(caught_up)
            if idle:
                topics.produce(mirror.target, name, topics.some(1, chance))
                topics.produce(mirror.source, name, topics.some(5, chance))
            else:
                with trickling(mirror.source, name, chance):
                    await asyncio.sleep(0.2)
                    topics.produce(mirror.target, name, topics.some(1, chance))
                    await running.until(lambda reports: reports[key].state.is_terminal, may_end=True)
            await running.until(lambda reports: reports[key].state is LaneState.FOREIGN_WRITE, may_end=True)
            topics.produce(mirror.source, other, topics.some(10, chance))
            await running.until(lambda reports: reports[LaneKey(TargetTopic(other), 0)].position == 30, may_end=True)

    asyncio.run(scenario())

    topics.produce(mirror.source, name, topics.some(5, chance))
    for _ in range(2):
        mirror.copy(name, until=all_are(LaneState.FOREIGN_WRITE))
        mirror.forget()


def test_target_ahead_of_its_source(mirror: Mirror, topic: TopicNamer, chance: random.Random) -> None:
    """A target that holds more than its source, from somebody else, says so and which offsets exist there only."""
    name = topic("ahead")
    topics.create_both(mirror.source, mirror.target, name)
    topics.produce(mirror.source, name, topics.some(10, chance))
    topics.produce(mirror.target, name, topics.some(15, chance))

    (report,) = mirror.copy(name, until=all_are(LaneState.FOREIGN_WRITE)).values()

    assert report.problem is not None
    assert "[10, 15)" in report.problem.message


def test_source_retention_overtakes(mirror: Mirror, topic: TopicNamer, chance: random.Random) -> None:
    """What the source deleted while nobody copied is a gap with exact bounds; told to go on, the lane does."""
    name = topic("overtaken")
    topics.create_both(mirror.source, mirror.target, name)
    topics.produce(mirror.source, name, topics.some(30, chance))
    mirror.copy(name)
    topics.produce(mirror.source, name, topics.some(70, chance), batch_num_messages=10)
    topics.delete_records(mirror.source, name, 57)

    def report_of(reports: dict[LaneKey, LaneReport]) -> LaneReport:
        return reports[LaneKey(TargetTopic(name), 0)]

    stopped = report_of(mirror.copy(name, until=all_are(LaneState.DATA_GAP)))
    assert stopped.problem is not None
    assert "[30, 57)" in stopped.problem.message
    passed = report_of(mirror.copy(name, continues_after_gap=True))
    assert passed.gaps == (Gap(30, 57),)

    here, there = (
        oracle.records(cluster.admin_bootstrap_servers, name)[0] for cluster in (mirror.source, mirror.target)
    )
    assert [record.offset for record in there] == [*range(30), *range(57, 100)]
    oracle.assert_equal(there[30:], here, name)


def test_target_topic_recreated(mirror: Mirror, topic: TopicNamer, chance: random.Random) -> None:
    """Nothing goes into another topic of the same name, while running or afterwards; other lanes go on."""
    name, other = topic("recreated"), topic("other")
    for each in (name, other):
        topics.create_both(mirror.source, mirror.target, each)
        topics.produce(mirror.source, each, topics.some(10, chance))
    key = LaneKey(TargetTopic(name), 0)

    async def scenario() -> None:
        async with mirror.running(name, other) as running:
            await running.until(caught_up)
            topics.delete(mirror.target, name)
            topics.create(mirror.target, name)
            topics.produce(mirror.source, name, topics.some(10, chance))
            await running.until(lambda reports: reports[key].state is LaneState.TOPIC_RECREATED, may_end=True)
            topics.produce(mirror.source, other, topics.some(10, chance))
            await running.until(lambda reports: reports[LaneKey(TargetTopic(other), 0)].position == 20, may_end=True)

    asyncio.run(scenario())

    assert oracle.ends(mirror.target.admin_bootstrap_servers, name) == oracle.Ends(0, 0, 0)
