"""Dead letters replayed into a topic of the same cluster, by replays that end anywhere."""

from __future__ import annotations

import asyncio
import contextlib
import random
import tracemalloc
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from isthmus.engine.batches.rebatch import Record
from isthmus.engine.mapped.lettertopics import LetterTopics
from isthmus.engine.mapped.transformer import Changed, DeadLetter, Failure, Portion
from isthmus.errors import ClusterError, PlanRefused
from isthmus.kafka.admin.changes import await_leaders
from isthmus.kafka.client import Client
from isthmus.local import LocalCluster
from isthmus.model.lane import Lane
from isthmus.model.link import Link
from isthmus.model.links.deadletters import dead_letters_of
from isthmus.model.links.transform import OnError, RecordFunction, Transform
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.recovery import letterreplay
from isthmus.recovery.letterreplay import LetterReplayer
from isthmus.recovery.letters import mark_replayed
from isthmus.recovery.showing import LetterHome, ShownSelection, count_letters, show_records
from testing.records import oracle, topics
from testing.runs.running import link_of

pytestmark = pytest.mark.integration

LETTERS = 60


def linked(west: LocalCluster, name: str) -> Link:
    link = link_of(west.cluster(), west.cluster(), name, name=name)
    return replace(link, transforms=(Transform(python=RecordFunction("json", "dumps"), on_error=OnError.DEAD_LETTER),))


async def lane_of(name: str, target: Client) -> Lane:
    """The lane of a topic that is there."""
    await await_leaders(target, {name: 1})
    found = (await target.metadata([name])).topics[name]
    return Lane(
        source_topic=SourceTopic(name),
        source_topic_id=uuid.UUID(int=7),
        target_topic=TargetTopic(name),
        target_topic_id=found.topic_id,
        partition=0,
        is_mapped=True,
        transform="one",
    )


def dead(offset: int) -> DeadLetter:
    return DeadLetter(Record(offset, topics.SEPTEMBER, b"k", b"%d" % offset, []), 0, False, "no")


async def marked(_: Transform, portions: Sequence[Portion]) -> list[list[Changed]]:
    """Leaves out each seventh record, fails for each eleventh, and marks all others."""

    def become(record: Record) -> Changed:
        if record.offset % 11 == 0:
            return Failure(record, "no")
        return None if record.offset % 7 == 0 else record._replace(value=b"<%b>" % (record.value or b""))

    return [[become(record) for record in portion.records] for portion in portions]


def test_replays_that_end_anywhere(west: LocalCluster, topic: Callable[[str], str]) -> None:
    """Each record comes once and in the order of its origin, also where letters stand in another one; a lane that adds
    letters meanwhile goes on, and what failed again is tried again.
    """
    name = topic("replayed")
    topics.create(west, name)
    topics.create(west, dead_letters_of(name, TargetTopic(name)))
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")  # noqa: T201
    chance = random.Random(seed)

    async def scenario() -> None:
        async with Client(west.cluster()) as target:
            taken = await LetterTopics("east", target, name, lambda: True).take_over(await lane_of(name, target), 0)
            await taken.put([dead(offset) for offset in range(1, LETTERS, 2)])
            await taken.put([dead(offset) for offset in range(2, LETTERS, 2)])

            def replayer() -> LetterReplayer:
                return LetterReplayer(
                    link=linked(west, name), target=target, topic=TargetTopic(name), into=name, change=marked
                )

            for number in range(8):
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(chance.random() * 0.2):
                        await replayer().replay()
                await taken.put([dead(LETTERS + number)])
            (found,) = await replayer().replay()
            total = LETTERS - 1 + 8
            failed = sum(offset % 11 == 0 for offset in range(1, total + 1))
            assert found.failed == failed
            assert found.present + found.written + found.left_out + failed == total
            (again,) = await replayer().replay()
            assert (again.written, again.left_out, again.present, again.failed) == (0, 0, total - failed, failed)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(letterreplay, "_chunks", lambda settled: [[each] for each in settled])
        asyncio.run(scenario())

    (seen,) = oracle.records(west.bootstrap_servers, name, "read_committed")
    offsets = [int((each.value or b"").strip(b"<>")) for each in seen]
    assert offsets == [n for n in range(1, LETTERS + 8) if n % 7 and n % 11]


def test_marks_that_were_not_read_keep_a_replay_from_committing(
    west: LocalCluster, topic: Callable[[str], str]
) -> None:
    """As if a leader that was cut off had shown a log without them: a record is not written twice, and a repeated
    replay goes on. Letters that came meanwhile do not matter.
    """
    name = topic("cutoff")
    where = dead_letters_of(name, TargetTopic(name))
    topics.create(west, name)
    topics.create(west, where)

    async def scenario() -> None:
        async with Client(west.cluster()) as target:
            lane = await lane_of(name, target)
            taken = await LetterTopics("east", target, name, lambda: True).take_over(lane, 0)
            await taken.put([dead(1), dead(2)])

            async def change(_: Transform, portions: Sequence[Portion]) -> list[list[Changed]]:
                (portion,) = portions
                if len(portion.records) == 2:
                    mark = mark_replayed(f"{name}@{lane.target_topic_id}", [0], topics.SEPTEMBER)
                    given = topics.Given(mark.key, mark.value, [*mark.headers], mark.timestamp)
                    await asyncio.to_thread(topics.produce, west, where, [given])
                else:
                    await taken.put([dead(3)])
                return [list[Changed](portion.records)]

            replayer = LetterReplayer(
                link=linked(west, name), target=target, topic=TargetTopic(name), into=name, change=change
            )
            with pytest.raises(ClusterError, match="does not end where it was read to"):
                await replayer.replay()
            (found,) = await replayer.replay()
            assert (found.written, found.present) == (1, 1)

    asyncio.run(scenario())

    (seen,) = oracle.records(west.bootstrap_servers, name, "read_committed")
    assert [each.value for each in seen] == [b"2"]


def test_a_record_that_the_topic_does_not_take_fails_alone(west: LocalCluster, topic: Callable[[str], str]) -> None:
    """Others come, and it does once the topic takes it. Without a transform only raw letters can be replayed."""
    name = topic("unfit")
    topics.create(west, name, max_message_bytes=10_000)
    topics.create(west, dead_letters_of(name, TargetTopic(name)))
    large = dead(2)._replace(record=dead(2).record._replace(value=random.Random(5).randbytes(50_000)))

    async def scenario() -> None:
        async with Client(west.cluster()) as target:
            taken = await LetterTopics("east", target, name, lambda: True).take_over(await lane_of(name, target), 0)
            await taken.put([dead(1), dead(3), large])
            link = linked(west, name)
            raw = LetterReplayer(link=link, target=target, topic=TargetTopic(name), into=name)
            (found,) = await raw.replay()
            assert (found.written, found.failed) == (2, 1)
            assert "offset 2" in found.reason
            await taken.put([dead(5)._replace(record=large.record._replace(offset=5))])
            (found,) = await raw.replay()
            assert (found.written, found.present, found.failed) == (0, 2, 2)
            await asyncio.to_thread(topics.configure, west, name, max_message_bytes=100_000)
            (found,) = await raw.replay()
            assert (found.written, found.present, found.failed) == (2, 2, 0)
            await taken.put([dead(4)])
            with pytest.raises(PlanRefused, match="has no transform"):
                await replace(raw, link=replace(link, transforms=()), change=marked).replay()

    asyncio.run(scenario())


def test_a_topic_with_fewer_partitions_gets_letters_if_it_has_theirs(
    west: LocalCluster, topic: Callable[[str], str]
) -> None:
    """A partition that is missing matters only if letters of it are to be replayed; then nothing is written."""
    name = topic("fewer")
    topics.create(west, name)
    topics.create(west, dead_letters_of(name, TargetTopic(name)), partitions=2)

    async def scenario() -> None:
        async with Client(west.cluster()) as target:
            letters, lane = LetterTopics("east", target, name, lambda: True), await lane_of(name, target)
            former = replace(lane, partition=1, target_topic_id=uuid.UUID(int=9))
            await (await letters.take_over(lane, 0)).put([dead(1)])
            await (await letters.take_over(former, 0)).put([dead(2)])
            raw = LetterReplayer(link=linked(west, name), target=target, topic=TargetTopic(name), into=name)
            assert [each.written for each in await raw.replay()] == [1, 0]
            await (await letters.take_over(replace(lane, partition=1), 0)).put([dead(3)])
            with pytest.raises(PlanRefused, match="records of partition 1 were set aside"):
                await raw.replay()

    asyncio.run(scenario())


MIB = 1 << 20


def test_letters_are_not_held_all_at_once(west: LocalCluster, topic: Callable[[str], str]) -> None:
    """Neither for a list, nor to show some, nor for a replay: however many there are, some MiB are enough."""
    name = topic("large")
    where, count = dead_letters_of(name, TargetTopic(name)), 96
    topics.create(west, name, max_message_bytes=2 * MIB)
    topics.create(west, where, max_message_bytes=2 * MIB)
    chance = random.Random(7)

    def large(offset: int) -> DeadLetter:
        return dead(offset)._replace(record=dead(offset).record._replace(value=chance.randbytes(MIB)))

    async def scenario() -> None:
        async with Client(west.cluster()) as target:
            taken = await LetterTopics("east", target, name, lambda: True).take_over(await lane_of(name, target), 0)
            for offset in range(0, count, 8):
                await taken.put([large(each) for each in range(offset, offset + 8)])
            tracemalloc.start()
            (counted,) = await count_letters(target, LetterHome(name, TargetTopic(name), where))
            assert counted.records == count
            shown = await show_records(target, name, TargetTopic(name), ShownSelection(limit=2))
            assert [each.offset for each in shown] == [count - 2, count - 1]
            raw = LetterReplayer(link=linked(west, name), target=target, topic=TargetTopic(name), into=name)
            (found,) = await raw.replay()
            assert found.written == count
            assert tracemalloc.get_traced_memory()[1] < 80 * MIB

    try:
        asyncio.run(scenario())
    finally:
        tracemalloc.stop()
