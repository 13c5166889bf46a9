"""Mapped lanes between real clusters: other offsets, next to what others write, every record once."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from isthmus.model.lane import LaneKey, LaneState
from isthmus.model.naming import TargetTopic
from isthmus.model.offsets import LATEST
from isthmus.model.translation import MappedRange
from testing.records import oracle, topics
from testing.records.compaction import Compacted, keys
from testing.records.transactions import TransactionalProducer, interleave
from testing.records.trickle import trickling
from testing.runs.mapping import Maps, assert_mapped
from testing.runs.mirror import Mirror, Reports, all_are, caught_up

pytestmark = pytest.mark.integration

TopicNamer = Callable[[str], str]

SEEDS = 3


def copied(mirror: Mirror, maps: Maps, *names: str, **lane: Any) -> Reports:
    """Copy what there is, and remember it."""

    async def scenario() -> Reports:
        async with mirror.running(*names, engine={"maps": maps}, is_mapped=True, **lane) as running:
            reports = await running.until_copied()
            maps.note(running.engine)
            return reports

    return asyncio.run(scenario())


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_records_go_behind_what_is_there(mirror: Mirror, topic: TopicNamer, codec: str) -> None:
    """A target that holds data already keeps it; later records go behind, and the map is one range for each visit."""
    name = topic("behind")
    chance = random.Random(7)
    topics.create_both(mirror.source, mirror.target, name)
    topics.produce(mirror.target, name, topics.some(17, chance))
    topics.produce(mirror.source, name, topics.some(1000, chance), compression_type=codec)
    maps = Maps()

    (report,) = copied(mirror, maps, name).values()
    assert (report.position, report.lag_records, report.records) == (1000, 0, 1000)
    assert maps.of(name).ranges == (MappedRange(0, 17, 1000),)
    topics.produce(mirror.target, name, topics.some(3, chance))
    topics.produce(mirror.source, name, topics.some(500, chance), compression_type=codec)
    (report,) = copied(mirror, maps, name).values()

    assert (report.position, report.records) == (1500, 500)
    assert maps.of(name).ranges == (MappedRange(0, 17, 1000), MappedRange(1000, 1020, 500))
    assert len(assert_mapped(mirror.source, mirror.target, name, name, maps.of(name))) == 20


@pytest.mark.parametrize("number", range(SEEDS))
def test_crashes_lose_and_double_nothing_next_to_others(mirror: Mirror, topic: TopicNamer, number: int) -> None:
    """Engines are cut off anywhere, the ledger is as old as can be, and others write all the while."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")  # noqa: T201
    chance = random.Random(seed)
    name, maps = topic(f"crashes{number}"), Maps()
    topics.create_both(mirror.source, mirror.target, name)
    topics.produce(mirror.source, name, topics.some(1500, chance), batch_size=chance.choice([500, 100_000]))

    async def visit() -> None:
        async with mirror.running(name, engine={"maps": maps}, is_mapped=True) as running:
            end = chance.randint(0, 3000)
            await running.until(
                lambda reports: any(
                    report.position >= min(end, report.source_end - 1) >= 0 for report in reports.values()
                ),
                look_s=0,
            )
            if chance.random() < 0.4:
                maps.note(running.engine)
            await asyncio.sleep(chance.random() * 0.01)
            await running.engine.stop(drain_s=0.0)

    with trickling(mirror.source, name, chance), trickling(mirror.target, name, chance):
        for _ in range(6):
            asyncio.run(visit())
    copied(mirror, maps, name)

    assert_mapped(mirror.source, mirror.target, name, name, maps.of(name))


def test_only_what_was_committed_comes(mirror: Mirror, topic: TopicNamer) -> None:
    """No control record takes an offset at the target, nothing that was aborted comes, and the lane is not behind."""
    name, maps = topic("committed"), Maps()
    chance = random.Random(11)
    topics.create_both(mirror.source, mirror.target, name)
    interleave(mirror.source, name, chance, steps=40)

    (report,) = copied(mirror, maps, name).values()

    seen = oracle.records(mirror.source.bootstrap_servers, name, "read_committed")[0]
    assert report.records == len(seen)
    assert oracle.ends(mirror.target.bootstrap_servers, name).high == len(seen)
    assert assert_mapped(mirror.source, mirror.target, name, name, maps.of(name)) == []


def test_an_open_transaction_of_others_at_the_target_stops_nothing(mirror: Mirror, topic: TopicNamer) -> None:
    """Its records and its end lie between ours, and a lane that comes back finds its place behind it."""
    name, maps = topic("open"), Maps()
    chance = random.Random(5)
    topics.create_both(mirror.source, mirror.target, name)
    topics.produce(mirror.source, name, topics.some(100, chance))
    writing = TransactionalProducer(mirror.target, topic("other"))
    writing.send(name, topics.some(4, chance))

    async def visit() -> None:
        async with mirror.running(name, engine={"maps": maps}, is_mapped=True) as running:
            await running.until_copied()

    # Nobody remembers but the log.
    asyncio.run(visit())
    topics.produce(mirror.source, name, topics.some(50, chance))
    copied(mirror, maps, name)
    writing.end(commit=False)
    topics.produce(mirror.source, name, topics.some(5, chance))
    copied(mirror, maps, name)

    assert maps.of(name).ranges == (MappedRange(0, 4, 150), MappedRange(150, 155, 5))
    assert len(assert_mapped(mirror.source, mirror.target, name, name, maps.of(name))) == 4


@pytest.mark.parametrize("start", [LATEST, topics.SEPTEMBER + 40])
def test_a_lane_begins_where_it_is_told_to(mirror: Mirror, topic: TopicNamer, start: int) -> None:
    """At the end, or at a timestamp: what comes from then on is copied, also what came while nobody ran."""
    name, maps = topic("start"), Maps()
    topics.create_both(mirror.source, mirror.target, name)

    def some(begin: int, end: int) -> list[topics.Given]:
        return [topics.Given(None, b"%d" % n, [], topics.SEPTEMBER + n) for n in range(begin, end)]

    topics.produce(mirror.source, name, some(0, 60))
    copied(mirror, maps, name, start=start)
    topics.produce(mirror.source, name, some(60, 100))
    copied(mirror, maps, name, start=start)

    begin = 60 if start == LATEST else 40
    assert assert_mapped(mirror.source, mirror.target, name, name, maps.of(name), begin=begin) == []
    assert maps.of(name).ranges == (MappedRange(begin, 0, 100 - begin),)


def test_two_links_into_one_topic(mirror: Mirror, topic: TopicNamer) -> None:
    """Each brings its own source's records once, in order, while the other writes."""
    name, chance = topic("shared"), random.Random(13)
    topics.create_both(mirror.source, mirror.target, name)
    topics.produce(mirror.source, name, topics.some(300, chance))
    other, maps = Mirror(mirror.source, mirror.target), (Maps(), Maps())

    async def scenario() -> None:
        settings: dict[str, Any] = {"is_mapped": True}
        async with (
            mirror.running(name, engine={"maps": maps[0]}, **settings) as one,
            other.running(name, engine={"maps": maps[1]}, **settings) as two,
        ):
            for _ in range(10):
                await asyncio.to_thread(topics.produce, mirror.source, name, topics.some(30, chance))
            for running, kept in zip((one, two), maps, strict=True):
                await running.until_copied()
                kept.note(running.engine)

    asyncio.run(scenario())

    for kept in maps:
        assert len(assert_mapped(mirror.source, mirror.target, name, name, kept.of(name))) == 600


def test_batches_are_split_for_a_target_that_takes_less(mirror: Mirror, topic: TopicNamer) -> None:
    """A source's batch that is too large comes in parts, and the map does not show it."""
    name, maps = topic("split"), Maps()
    chance = random.Random(3)
    topics.create(mirror.source, name)
    topics.create(mirror.target, name, max_message_bytes=5_000)
    topics.produce(mirror.source, name, topics.some(400, chance), batch_size=200_000, linger_ms=50)

    copied(mirror, maps, name, batch_bytes_max=5_000)
    topics.configure(mirror.target, name, max_message_bytes=3_000)
    topics.produce(mirror.source, name, topics.some(100, chance), batch_size=200_000, linger_ms=50)
    copied(mirror, maps, name, batch_bytes_max=5_000)

    assert maps.of(name).ranges == (MappedRange(0, 0, 500),)
    assert assert_mapped(mirror.source, mirror.target, name, name, maps.of(name)) == []


def test_what_the_source_deleted_is_a_gap(mirror: Mirror, topic: TopicNamer) -> None:
    """Records that went before they were copied stop the lane, or are recorded and passed over, as configured."""
    name, maps = topic("gap"), Maps()
    chance = random.Random(2)
    topics.create_both(mirror.source, mirror.target, name)
    topics.produce(mirror.source, name, topics.some(50, chance))
    topics.delete_records(mirror.source, name, 10)
    copied(mirror, maps, name)
    topics.produce(mirror.source, name, topics.some(50, chance))
    topics.delete_records(mirror.source, name, 70)

    def stop(reports: Reports) -> bool:
        return all_are(LaneState.DATA_GAP)(reports)

    (report,) = mirror.copy(name, until=stop, engine={"maps": maps}, is_mapped=True).values()
    assert report.problem is not None
    assert "[50, 70)" in report.problem.message
    (report,) = copied(mirror, maps, name, continues_after_gap=True).values()

    assert [(gap.offset_begin, gap.offset_end) for gap in report.gaps] == [(50, 70)]
    assert maps.of(name).ranges == (MappedRange(10, 0, 40), MappedRange(70, 40, 30))
    assert caught_up({report.key: report})


async def copied_and_forgotten(mirror: Mirror, name: str, maps: Maps, **lane: Any) -> None:
    """Copy what there is; only the log knows."""
    async with mirror.running(name, engine={"maps": maps}, is_mapped=True, **lane) as running:
        await running.until_copied()


def test_a_source_that_was_compacted_since(mirror: Mirror, topic: TopicNamer) -> None:
    """What was copied and nobody wrote down is known again, although the cleaner has taken most of it at the source."""
    topics.configure_broker(mirror.source, log_cleaner_backoff_ms=100)
    source, maps = Compacted(mirror.source, topic("cleaned")), Maps()
    topics.create(mirror.target, source.name)
    source.write(keys("a", 30))
    source.write(keys("b", 20))
    asyncio.run(copied_and_forgotten(mirror, source.name, maps, is_compacted=True))
    source.write(keys("a", 30)[::2])
    source.write(keys("b", 20)[5:])
    source.write([b"last"])
    source.write([b"tail"])
    source.await_cleaning(52)

    (report,) = copied(mirror, maps, source.name, is_compacted=True).values()

    assert report.records == 32
    others = assert_mapped(mirror.source, mirror.target, source.name, source.name, maps.of(source.name))
    assert len(others) == 30, "what the cleaner took at the source is still here"


def test_a_source_that_deleted_what_was_copied(mirror: Mirror, topic: TopicNamer) -> None:
    """Retention at the source has taken some of what was copied and nobody wrote down, and none of the rest."""
    name, maps, chance = topic("deleted"), Maps(), random.Random(4)
    topics.create_both(mirror.source, mirror.target, name)
    topics.produce(mirror.source, name, topics.some(200, chance))
    asyncio.run(copied_and_forgotten(mirror, name, maps))
    topics.delete_records(mirror.source, name, 120)
    topics.produce(mirror.source, name, topics.some(10, chance))

    (report,) = copied(mirror, maps, name).values()

    assert report.records == 10
    assert maps.of(name).ranges == (MappedRange(120, 120, 90),)
    assert len(assert_mapped(mirror.source, mirror.target, name, name, maps.of(name))) == 120


def test_a_target_that_deleted_what_arrived(mirror: Mirror, topic: TopicNamer) -> None:
    """Retention at the target has taken what was copied, known or not: nothing of it comes again."""
    name, maps, chance = topic("short"), Maps(), random.Random(4)
    topics.create_both(mirror.source, mirror.target, name)
    fresh = [topics.Given(None, b"%d" % n, [], int(time.time() * 1000)) for n in range(200)]
    topics.produce(mirror.source, name, fresh)
    asyncio.run(copied_and_forgotten(mirror, name, maps))
    topics.delete_records(mirror.target, name, 200)
    topics.produce(mirror.source, name, topics.some(10, chance))

    (report,) = copied(mirror, maps, name).values()

    assert report.records == 10
    assert maps.of(name).ranges == (MappedRange(200, 200, 10),)


@pytest.mark.parametrize("is_running", [False, True], ids=["found when it began", "noted while it rested"])
def test_what_others_wrote_is_read_once(mirror: Mirror, topic: TopicNamer, is_running: bool) -> None:
    """Of a lane that rests it is written down how far somebody has looked, however much others have written since its
    last own record: the next lease begins there, and misses nothing of the lane that came since.
    """
    name, maps, chance = topic("quiet"), Maps(), random.Random(4)
    topics.create_both(mirror.source, mirror.target, name)
    topics.produce(mirror.source, name, topics.some(20, chance))
    others = 3_000
    key = LaneKey(TargetTopic(name), 0)

    async def scenario() -> None:
        async with mirror.running(name, engine={"maps": maps}, is_mapped=True) as running:
            await running.until_copied()
            if is_running:
                await asyncio.to_thread(topics.produce, mirror.target, name, topics.some(others, chance))
                await running.until(lambda _: running.engine.lanes.transits()[key].cursor.looked_to >= 20 + others)
            maps.note(running.engine)
        if not is_running:
            await asyncio.to_thread(topics.produce, mirror.target, name, topics.some(others, chance))
            async with mirror.running(name, engine={"maps": maps}, is_mapped=True) as running:
                await running.until_copied()
                maps.note(running.engine)
        assert maps.cursors[key].looked_to == 20 + others
        # Nobody writes down what this one copies.
        await asyncio.to_thread(topics.produce, mirror.source, name, topics.some(5, chance))
        async with mirror.running(name, engine={"maps": maps}, is_mapped=True) as running:
            await running.until_copied()
        async with mirror.running(name, engine={"maps": maps}, is_mapped=True) as running:
            await running.until_copied()
            maps.note(running.engine)

    asyncio.run(scenario())

    assert len(assert_mapped(mirror.source, mirror.target, name, name, maps.of(name))) == others


def test_a_target_that_lost_what_was_copied(mirror: Mirror, topic: TopicNamer) -> None:
    """A log that ends before what is known to be there is not written to: it says so, and what to do."""
    name, maps, chance = topic("truncated"), Maps(), random.Random(4)
    topics.create_both(mirror.source, mirror.target, name)
    topics.produce(mirror.source, name, topics.some(20, chance))
    copied(mirror, maps, name)
    key, cursor = next(iter(maps.cursors.items()))
    maps.cursors[key] = replace(cursor, ordinal=30, source_offset=20, target_offset=30)

    (report,) = mirror.copy(name, until=all_are(LaneState.DIVERGED), engine={"maps": maps}, is_mapped=True).values()

    assert report.problem is not None
    assert "lost records" in report.problem.message
    assert oracle.ends(mirror.target.bootstrap_servers, name).high == 20
