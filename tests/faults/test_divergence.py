"""An unclean election at the source takes back what was copied, and other records take its place."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Final

import pytest

from isthmus.kafka.client import Client
from isthmus.kafka.metadata import NO_TOPIC_ID
from isthmus.local import LocalCluster
from isthmus.model.lane import LaneKey, LaneReport, LaneState, milestone_of
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.trees.switching import before_begin, stopped_at
from testing.patience import TERM_S
from testing.records import oracle, topics
from testing.records.topics import Given
from testing.records.transactions import TransactionalProducer
from testing.runs.mapping import Maps, assert_mapped
from testing.runs.mirror import Mirror, Running, lanes_of
from testing.runs.running import configuration_of, link_of
from testing.runs.witness import until_told
from testing.verbs import AsyncLinkOperations, LinkRecoverer

pytestmark = pytest.mark.faults

TopicNamer = Callable[[str], str]
LEADER: Final = 1
FOLLOWER: Final = 2
KEPT: Final = 50
COPIED: Final = 100
"""So much is at the target; what lies behind `KEPT` the source loses."""
NOTED: Final = 70
"""So far a lane was when that was last written down, before it crashed."""


class Source:
    """A topic of two replicas that prefers going on to keeping everything."""

    def __init__(self, cluster: LocalCluster, name: str, chance: random.Random) -> None:
        self.cluster, self.name = cluster, name
        self._chance = chance
        topics.create(
            cluster, name, assigned=[[LEADER, FOLLOWER]], min_insync_replicas=1, unclean_leader_election_enable="true"
        )

    def records(self, count: int) -> list[Given]:
        return topics.some(count, self._chance)

    async def grow(self, given: list[Given]) -> None:
        await asyncio.to_thread(topics.produce, self.cluster, self.name, given)

    async def commit(self, count: int) -> None:
        """Grow by a transaction that takes `count` offsets, that of its end included."""
        await asyncio.to_thread(self._commit, self.records(count - 1))

    def _commit(self, given: list[Given]) -> None:
        writer = TransactionalProducer(self.cluster, self.name)
        writer.send(self.name, given)
        writer.end(commit=True)

    async def leave_follower_behind(self) -> None:
        await asyncio.to_thread(self.cluster.broker(FOLLOWER).kill)

    async def elect_anew(self) -> None:
        """The leader leads again, in another epoch."""
        await asyncio.to_thread(self.cluster.broker(LEADER).kill)
        await asyncio.to_thread(self.cluster.broker(LEADER).start)

    async def lose(self) -> None:
        """The leader goes, and the follower that was left behind leads."""
        await asyncio.to_thread(self.cluster.broker(LEADER).kill)
        await asyncio.to_thread(self.cluster.broker(FOLLOWER).start)
        async with asyncio.timeout(TERM_S), Client(self.cluster.admin_cluster()) as client:
            while (await client.metadata([self.name])).topics[self.name].partitions[0].leader != FOLLOWER:
                await asyncio.sleep(0.1)


@asynccontextmanager
async def caught_up_with(source: Source, mirror: Mirror, last: Given, **lane: Any) -> AsyncIterator[Running]:
    """An engine that has copied everything, `last` at the end, of which the follower has half."""
    topics.create(mirror.target, source.name)
    async with mirror.running(source.name, **lane) as running:
        key = LaneKey(TargetTopic(source.name), 0)
        await source.grow(source.records(KEPT))
        await running.until(lambda reports: reports[key].position == KEPT)
        await source.leave_follower_behind()
        await source.grow([*source.records(COPIED - KEPT - 1), last])
        await running.until(lambda reports: reports[key].position == COPIED)
        yield running


@pytest.mark.parametrize(
    ("looks_away", "is_alike"),
    [
        pytest.param(False, False, id="at work-other records"),
        pytest.param(False, True, id="at work-the last one alike"),
        pytest.param(True, False, id="looking away-other records"),
        pytest.param(True, True, id="looking away-the last one alike"),
    ],
)
def test_unclean_election_while_an_engine_runs(
    mirror3: Mirror, topic: TopicNamer, chance: random.Random, looks_away: bool, is_alike: bool
) -> None:
    """The lane ends as diverged, whether or not it saw the log shorter than it was, and even if the end looks right."""
    source = Source(mirror3.source, topic("unclean"), chance)
    last, key = source.records(1)[0], LaneKey(TargetTopic(source.name), 0)

    async def scenario() -> None:
        async with caught_up_with(source, mirror3, last) as running:
            if looks_away:
                running.engine.write_until(0.0)
            await source.lose()
            await source.grow([*source.records(COPIED - KEPT - 1), last if is_alike else source.records(1)[0]])
            await source.grow(source.records(50))
            if looks_away:
                running.engine.write_until(None)
            await until_told(running, key, LaneState.DIVERGED, "source")

    asyncio.run(scenario())

    assert oracle.ends(mirror3.target.admin_bootstrap_servers, source.name).high == COPIED


@pytest.mark.parametrize(
    "is_alike",
    [
        pytest.param(False, id="other records"),
        pytest.param(True, id="the last one alike"),
    ],
)
def test_unclean_election_between_two_engines(
    mirror3: Mirror, topic: TopicNamer, chance: random.Random, is_alike: bool
) -> None:
    """The next owner finds it too, by what the one before has left. A recovery sets aside all that the source lost,
    even where the last record looks right, and has the topic begin anew.
    """
    source = Source(mirror3.source, topic("unclean"), chance)
    last, key = source.records(1)[0], LaneKey(TargetTopic(source.name), 0)

    async def scenario() -> None:
        async with caught_up_with(source, mirror3, last) as running:
            await running.engine.stop()
            marks = running.engine.lanes.marks()
        await source.lose()
        await source.grow([*source.records(COPIED - KEPT - 1), last if is_alike else source.records(1)[0]])
        await source.grow(source.records(50))
        async with mirror3.running(source.name, engine={"writable": False}) as running:
            running.engine.allow_writes(abandoned=False, marks=marks)
            await until_told(running, key, LaneState.DIVERGED, "source")

    asyncio.run(scenario())

    assert oracle.ends(mirror3.target.admin_bootstrap_servers, source.name).high == COPIED
    link = link_of(source.cluster.cluster(), mirror3.target.cluster(), source.name, name=source.name)
    recoverer = LinkRecoverer(configuration=configuration_of(link), name=source.name, topics=[source.name], quiet_s=0.2)
    (found,) = asyncio.run(recoverer.recover()).topics
    assert [each.shared for each in found.partitions] == [KEPT]
    (held,) = asyncio.run(AsyncLinkOperations(configuration_of(link), link.name).quarantine())
    assert (held.records, held.offset_first, held.offset_last) == (COPIED - KEPT, KEPT, COPIED - 1)
    assert oracle.ends(mirror3.target.admin_bootstrap_servers, source.name).high == 0


@pytest.mark.parametrize("is_clean", [pytest.param(True, id="clean"), pytest.param(False, id="crashed")])
def test_unclean_election_after_which_nothing_is_known(
    mirror3: Mirror, topic: TopicNamer, chance: random.Random, is_clean: bool
) -> None:
    """An owner that knows nothing of the one before holds the end of the log against the source: it never goes on."""
    source = Source(mirror3.source, topic("unclean"), chance)
    key = LaneKey(TargetTopic(source.name), 0)

    async def scenario() -> None:
        async with caught_up_with(source, mirror3, source.records(1)[0]):
            pass
        await source.lose()
        await source.grow(source.records(COPIED))
        async with mirror3.running(source.name, engine={"abandoned": not is_clean}) as running:
            await running.until(lambda reports: reports[key].state.is_terminal, may_end=True)
            problem = running.reports[key].problem
            assert problem is not None
            assert "unclean leader election" in problem.message

    asyncio.run(scenario())

    assert oracle.ends(mirror3.target.admin_bootstrap_servers, source.name).high == COPIED


@pytest.mark.parametrize("is_clean", [pytest.param(True, id="clean"), pytest.param(False, id="crashed")])
def test_unclean_election_does_not_let_a_mapped_lane_go_on_later(
    mirror3: Mirror, topic: TopicNamer, chance: random.Random, is_clean: bool
) -> None:
    """Not when the source has grown past its place, however often it is started: the ledger has the leader epoch of its
    place, or what came later is compared.
    """
    source, maps = Source(mirror3.source, topic("unclean"), chance), Maps()
    key, mapped = LaneKey(TargetTopic(source.name), 0), {"engine": {"maps": maps}, "is_mapped": True}

    async def scenario() -> None:
        async with caught_up_with(source, mirror3, source.records(1)[0], **mapped) as running:
            if is_clean:
                maps.note(running.engine)
        await source.lose()
        for grown in (1, COPIED, 1):
            await source.grow(source.records(grown))
            async with mirror3.running(source.name, **mapped) as running:
                await until_told(running, key, LaneState.DIVERGED, "source")
                maps.note(running.engine)

    asyncio.run(scenario())

    assert oracle.ends(mirror3.target.admin_bootstrap_servers, source.name).high == COPIED


def test_a_lane_that_comes_back_takes_no_election_for_a_loss(
    mirror3: Mirror, topic: TopicNamer, chance: random.Random
) -> None:
    """A distributor was at another leaf while its source got another leader, by a clean election. Nothing is lost."""
    source, maps = Source(mirror3.source, topic("back"), chance), Maps()
    key, mapped = LaneKey(TargetTopic(source.name), 0), {"engine": {"maps": maps}, "is_mapped": True}
    topics.create(mirror3.target, source.name)

    async def scenario() -> None:
        await source.grow(source.records(KEPT))
        async with mirror3.running(source.name, **mapped) as running:
            await running.until(lambda reports: reports[key].position == KEPT)
            maps.note(running.engine)
        await source.elect_anew()
        await source.grow(source.records(KEPT))
        async with mirror3.running(source.name, **mapped, begin_offset=NOTED) as running:
            await running.until(lambda reports: reports[key].position == COPIED)

    asyncio.run(scenario())


def test_what_was_lost_before_a_leaf_begins_is_not_passed_over(
    mirror3: Mirror, topic: TopicNamer, chance: random.Random
) -> None:
    """Another leaf got it, and the source has others in its place by the time that the next one begins. These no leaf
    would get.
    """
    source, maps = Source(mirror3.source, topic("lost"), chance), Maps()
    key, mapped = LaneKey(TargetTopic(source.name), 0), {"is_mapped": True}

    async def scenario() -> None:
        async with caught_up_with(source, mirror3, source.records(1)[0], engine={"maps": maps}, **mapped) as running:
            maps.note(running.engine)
        place = SourceTopic(source.name), NO_TOPIC_ID, 0
        report = LaneReport(key=key, state=LaneState.HELD, position=COPIED)
        async with Client(mirror3.source_login) as here, Client(mirror3.target_login) as there:
            lanes = await lanes_of(here, there, (source.name,), **mapped)
        begins, epochs = stopped_at(lanes, {key: report}, {key: maps.cursors[key]}, 0)[0]
        left_out, epoch = before_begin(begins, epochs, *place)
        await source.lose()
        await source.grow(source.records(COPIED))
        begun = {"begin_offset": COPIED, "begin_left_out": left_out, "begin_epoch": epoch}
        mirror3.forget()
        async with mirror3.running(source.name, engine={"maps": Maps()}, **mapped, **begun) as running:
            await until_told(running, key, LaneState.DIVERGED, "source")

    asyncio.run(scenario())


def test_an_epoch_that_was_read_ahead_and_lost_keeps_no_mapped_lane(
    mirror3: Mirror, topic: TopicNamer, chance: random.Random
) -> None:
    """What was read of it and could not be copied yet is gone, nothing that was copied is: the lane goes on with what
    the source has. So it does in another run whose ledger knows an epoch that the source does not.
    """
    source, maps = Source(mirror3.source, topic("ahead"), chance), Maps()
    key, mapped = LaneKey(TargetTopic(source.name), 0), {"engine": {"maps": maps}, "is_mapped": True}
    topics.create(mirror3.target, source.name, max_message_bytes=2_000)

    async def scenario() -> None:
        await source.grow(source.records(COPIED))
        await source.leave_follower_behind()
        await source.elect_anew()
        await source.grow([Given(None, random.Random(1).randbytes(4_000), [], topics.SEPTEMBER)])
        async with mirror3.running(source.name, **mapped) as running:
            await running.until(
                lambda reports: reports[key].state is LaneState.BLOCKED and reports[key].position == COPIED
            )
            await source.lose()
            await source.grow(source.records(KEPT))
            await running.until(lambda reports: reports[key].position == COPIED + KEPT)
            maps.note(running.engine)
        cursor = maps.cursors[key]
        maps.cursors[key] = replace(cursor, source_epoch=cursor.source_epoch + 7)
        await source.grow(source.records(KEPT))
        async with mirror3.running(source.name, **mapped) as running:
            await running.until(lambda reports: reports[key].position == COPIED + 2 * KEPT)
            maps.note(running.engine)

    asyncio.run(scenario())

    assert assert_mapped(source.cluster, mirror3.target, source.name, source.name, maps.of(source.name)) == []


def test_unclean_election_after_a_crash_where_both_logs_end_with_a_transaction(
    mirror3: Mirror, topic: TopicNamer, chance: random.Random
) -> None:
    """Ends of transactions look alike on both sides: that the lane has diverged is known by how far it had been in
    which leader epoch, written down before the crash, although it was further when it crashed.
    """
    source = Source(mirror3.source, topic("unclean"), chance)
    key = LaneKey(TargetTopic(source.name), 0)
    topics.create(mirror3.target, source.name)

    async def scenario() -> None:
        async with mirror3.running(source.name) as running:
            await source.commit(KEPT)
            await running.until(lambda reports: reports[key].position == KEPT)
            await source.leave_follower_behind()
            await source.commit(NOTED - KEPT)
            await running.until(lambda reports: reports[key].position == NOTED)
            lane = running.engine.lanes[key].lane
            milestones = [milestone_of(lane, mark) for mark in running.engine.lanes.marks()]
            assert [each.position for each in milestones] == [NOTED]
            await source.commit(COPIED - NOTED)
            await running.until(lambda reports: reports[key].position == COPIED)
        await source.lose()
        await source.commit(COPIED - KEPT)
        await source.commit(50)
        async with mirror3.running(source.name, engine={"writable": False}) as running:
            running.engine.allow_writes(abandoned=True, marks=milestones)
            await until_told(running, key, LaneState.DIVERGED, "unclean leader election")

    asyncio.run(scenario())

    assert oracle.ends(mirror3.target.admin_bootstrap_servers, source.name).high == COPIED
