"""Records that a transform cannot change, kept as dead letters at a real target, each once."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from isthmus.engine.batches.rebatch import Record
from isthmus.engine.mapped.letters import Letter, as_letter, read_letter
from isthmus.engine.mapped.lettertopics import LetterTopics
from isthmus.engine.mapped.transformer import Changed, DeadLetter, Failure, LaneLetters
from isthmus.errors import ClusterError
from isthmus.kafka.client import Client
from isthmus.model.lane import Lane, LaneKey, LaneState
from isthmus.model.links.deadletters import dead_letters_of
from isthmus.model.links.transform import OnError
from isthmus.model.naming import SourceTopic, TargetTopic
from testing.records import oracle, topics
from testing.records.oracle import Seen
from testing.runs.changing import Changer, Steps, changing, maps_of
from testing.runs.mirror import Mirror, Running, all_are

pytestmark = pytest.mark.integration

TopicNamer = Callable[[str], str]
POLICY: dict[str, Any] = {"on_error": OnError.DEAD_LETTER}


class SteppingLetters(LetterTopics):
    """Dead letters that are written in steps."""

    def __init__(self, *args: Any, steps: Steps) -> None:
        super().__init__(*args)
        self._steps = steps

    async def take_over(self, lane: Lane, begin: int) -> LaneLetters:
        taken = await super().take_over(lane, begin)
        await self._steps.take("after letters were taken over")
        return _SteppingPut(taken, self._steps)


class _SteppingPut:
    def __init__(self, taken: LaneLetters, steps: Steps) -> None:
        self.kept, self._taken, self._steps = taken.kept, taken, steps

    async def put(self, letters: Sequence[DeadLetter]) -> None:
        await self._steps.take("before letters are written")
        await self._taken.put(letters)
        await self._steps.take("after letters were written")


@asynccontextmanager
async def lettering(
    mirror: Mirror, name: str, function: Callable[[Record], Changed], steps: Steps | None = None
) -> AsyncIterator[Running]:
    """An engine whose lanes have dead letters."""
    steps = steps or Steps()
    async with Client(mirror.target_login) as target:
        letters = SteppingLetters("east", target, name, lambda: True, steps=steps)
        transformers = {"one": Changer(function, steps)}
        async with changing(
            mirror, name, name, transformers=transformers, letters=letters, steps=steps, **POLICY
        ) as running:
            yield running


def create_both(mirror: Mirror, name: str) -> str:
    """Create a topic on both sides, and the one for dead letters."""
    topics.create_both(mirror.source, mirror.target, name)
    letters = dead_letters_of(name, TargetTopic(name))
    topics.create(mirror.target, letters)
    return letters


def letters_in(mirror: Mirror, topic: str) -> list[Letter]:
    """The letters that a consumer at read_committed finds."""
    (found,) = oracle.records(mirror.target.admin_bootstrap_servers, topic, "read_committed")
    read = [read_letter(Record(s.offset, s.timestamp[1], s.key, s.value, list(s.headers))) for s in found]
    assert None not in read
    return [each for each in read if each is not None]


def fail_each(numbers: set[int], *, reason: str = "no") -> Callable[[Record], Changed]:
    """A transform that fails for the records at these offsets."""
    return lambda record: Failure(record, reason) if record.offset in numbers else record


def valued(count: int) -> list[topics.Given]:
    return [topics.Given(b"k", b"%d" % n, [("h", None)], topics.SEPTEMBER + n) for n in range(count)]


def test_a_failing_record_is_kept_as_it_was(mirror: Mirror, topic: TopicNamer) -> None:
    """Key, value, headers and timestamp are the source's, also in a record that itself was a dead letter once; another
    run adds nothing.
    """
    name = topic("dead")
    where = create_both(mirror, name)
    given = [*valued(10), topics.Given(None, None, [("isthmus.kind", b"dead-letter"), ("a", b"\xff")], 1)]
    topics.produce(mirror.source, name, given)

    async def copy() -> None:
        async with lettering(mirror, name, fail_each({3, 10}, reason="is 3 or 10")) as running:
            await running.until_copied()

    asyncio.run(copy())
    asyncio.run(copy())

    (source,) = oracle.records(mirror.source.admin_bootstrap_servers, name)
    found = letters_in(mirror, where)
    assert [each.record for each in found] == [as_record(source[3]), as_record(source[10])]
    assert {(e.cluster, e.topic, e.partition, e.transform, e.reason, e.is_appended) for e in found} == {
        ("east", name, 0, "one", "is 3 or 10", False)
    }
    (target,) = oracle.records(mirror.target.admin_bootstrap_servers, name)
    assert [each.value for each in target] == [each.value for each in source if each.offset not in (3, 10)]


def as_record(seen: Seen) -> Record:
    return Record(seen.offset, seen.timestamp[1], seen.key, seen.value, list(seen.headers))


def steps_of(chance: random.Random) -> Iterator[Steps]:
    for _ in range(12):
        yield Steps(chance.randint(0, 30))


@pytest.mark.parametrize("number", range(2))
def test_engines_end_between_any_two_steps(mirror: Mirror, topic: TopicNamer, number: int) -> None:
    """A record is a dead letter once, or copied once, or left out, and never two of these, although the transform
    decides otherwise each time and engines end anywhere.
    """
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")  # noqa: T201
    chance = random.Random(seed)
    name = topic(f"ends{number}")
    where = create_both(mirror, name)
    topics.produce(mirror.source, name, topics.some(400, chance), batch_size=chance.choice([500, 20_000]))

    def unsteady(record: Record) -> Changed:
        if record.offset % 9 and chance.random() < 0.3:
            return None
        return Failure(record, f"by {chance.random()}") if chance.random() < 0.4 else record

    async def visit(steps: Steps) -> None:
        async with lettering(mirror, name, unsteady, steps) as running:
            reaching, copying = (asyncio.create_task(work) for work in (steps.reached.wait(), running.until_copied()))
            done, _ = await asyncio.wait([reaching, copying], return_when=asyncio.FIRST_COMPLETED)
            copying.cancel()
            reaching.cancel()
            assert all(each.exception() is None for each in done)
            await running.engine.stop(drain_s=0.0)

    async def finish() -> None:
        async with lettering(mirror, name, unsteady) as running:
            await running.until_copied()

    for steps in steps_of(chance):
        asyncio.run(visit(steps))
        topics.produce(mirror.source, name, topics.some(20, chance))
    asyncio.run(finish())

    (source,) = oracle.records(mirror.source.admin_bootstrap_servers, name)
    by_offset = {each.offset: each for each in source}
    letters = [each.record for each in letters_in(mirror, where)]
    dead = [each.offset for each in letters]
    assert len(dead) == len(set(dead))
    assert letters == [as_record(by_offset[offset]) for offset in dead]
    lane = asyncio.run(maps_of(mirror, name))[LaneKey(TargetTopic(name), 0)]
    copied = [one.source_begin + n for one in lane.offsets.ranges for n in range(one.length)]
    assert copied == sorted(set(copied))
    assert not set(copied) & set(dead)
    assert all(offset in {*copied, *dead} for offset in by_offset if offset % 9 == 0)


def test_a_topic_that_is_gone_or_takes_no_such_record(mirror: Mirror, topic: TopicNamer) -> None:
    """The lane is BLOCKED with the reason before the record that fails, and goes on when the topic takes it."""
    name = topic("gone")
    topics.create_both(mirror.source, mirror.target, name)
    where, key = dead_letters_of(name, TargetTopic(name)), LaneKey(TargetTopic(name), 0)
    large = topics.Given(b"k", random.Random(3).randbytes(300_000), [], topics.SEPTEMBER)
    topics.produce(mirror.source, name, [*valued(5), large, *valued(5)])

    async def scenario() -> list[str]:
        said: list[str] = []
        async with lettering(mirror, name, fail_each({3, 5, 6})) as running:

            async def blocked(why: str) -> None:
                reports = await running.until(
                    lambda found: all_are(LaneState.BLOCKED)(found) and why in str(found[key].problem)
                )
                said.append(str(reports[key].problem))

            await blocked("is not there")
            await asyncio.to_thread(topics.create, mirror.target, where, max_message_bytes=100_000)
            await blocked("too large")
            await asyncio.to_thread(topics.configure, mirror.target, where, max_message_bytes=1_000_000)
            await running.until_copied()
        return said

    gone, large_said = asyncio.run(scenario())

    assert f"topic {where} of" in gone
    assert "max.message.bytes" in large_said
    assert [each.record.offset for each in letters_in(mirror, where)] == [3, 5, 6]


def test_one_refused_letter_holds_back_no_other(mirror: Mirror, topic: TopicNamer) -> None:
    """The lane stops before the record that is at fault, which is named; what comes before it is copied or a letter."""
    name = topic("fault")
    topics.create_both(mirror.source, mirror.target, name)
    where, key = dead_letters_of(name, TargetTopic(name)), LaneKey(TargetTopic(name), 0)
    topics.create(mirror.target, where, cleanup_policy="compact")
    topics.produce(mirror.source, name, [*valued(50), topics.Given(None, b"v", [], topics.SEPTEMBER), *valued(50)])

    async def scenario() -> None:
        async with lettering(mirror, name, fail_each({3, 40, 50, 60})) as running:
            reports = await running.until(all_are(LaneState.BLOCKED))
            assert "offset 50" in str(reports[key].problem)
            await running.until(lambda _: copied() == 48)
            assert [each.record.offset for each in letters_in(mirror, where)] == [3, 40]
            await asyncio.to_thread(topics.configure, mirror.target, where, cleanup_policy="delete")
            await running.until_copied()

    def copied() -> int:
        return sum(map(len, oracle.records(mirror.target.admin_bootstrap_servers, name)))

    asyncio.run(scenario())
    assert [each.record.offset for each in letters_in(mirror, where)] == [3, 40, 50, 60]
    assert copied() == 97


def lane_of(name: str) -> Lane:
    return Lane(
        source_topic=SourceTopic(name),
        source_topic_id=uuid.UUID(int=7),
        target_topic=TargetTopic(name),
        target_topic_id=uuid.UUID(int=8),
        partition=0,
        is_mapped=True,
        transform="one",
        on_error=OnError.DEAD_LETTER,
    )


def dead(offset: int, epoch: int = 0) -> DeadLetter:
    return DeadLetter(Record(offset, topics.SEPTEMBER, b"k", b"%d" % offset, []), epoch, False, "no")


def test_who_had_letters_before_adds_none(mirror: Mirror, topic: TopicNamer) -> None:
    """An owner that others have replaced is refused, and so is one that has read less than there is. What is kept is
    known by offset and leader epoch, up to the lane's place, whatever others write there, and an open transaction of an
    owner that is gone is aborted. A target topic that was created again has its own letters: all records are new to it.
    """
    name = topic("owners")
    where = dead_letters_of(name, TargetTopic(name))
    topics.create(mirror.target, where)

    async def scenario() -> None:
        async with Client(mirror.target_login) as target:
            letters = LetterTopics("east", target, name, lambda: True)
            first = await letters.take_over(lane_of(name), 0)
            await first.put([dead(1), dead(4)])
            await first.put([dead(5, epoch=2)])
            second = await letters.take_over(lane_of(name), 3)
            assert second.kept == {(4, 0), (5, 2)}
            with pytest.raises(ClusterError):
                await first.put([dead(6)])
            await asyncio.to_thread(topics.produce, mirror.target, where, valued(3))
            await second.put([dead(7)])
            forged = as_letter(dead(8), lane_of(name), "east", 8)
            given = topics.Given(forged.key, forged.value, [*forged.headers], forged.timestamp)
            await asyncio.to_thread(topics.produce, mirror.target, where, [given])
            with pytest.raises(ClusterError, match="holds more than it had"):
                await second.put([dead(8)])
            third = await letters.take_over(lane_of(name), 5)
            assert third.kept == {(5, 2), (7, 0), (8, 0)}
            await third.put([dead(9)])
            anew = await letters.take_over(replace(lane_of(name), target_topic_id=uuid.UUID(int=9)), 0)
            assert anew.kept == set()
            await anew.put([dead(4)])
            last = await letters.take_over(lane_of(name), 5)
            assert last.kept == {(5, 2), (7, 0), (8, 0), (9, 0)}

    asyncio.run(scenario())

    (found,) = oracle.records(mirror.target.admin_bootstrap_servers, where, "read_committed")
    assert [each.value for each in found] == [b"1", b"4", b"5", b"0", b"1", b"2", b"7", b"8", b"9", b"4"]
