"""Records that are changed on their way between real clusters, with a real ledger."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest

from isthmus.engine.batches.rebatch import Record
from isthmus.engine.mapped.transformer import Changed
from isthmus.model.lane import LaneKey, LaneState
from isthmus.model.links.transform import OnError, RecordFunction, Transform
from isthmus.model.naming import TargetTopic
from isthmus.spark.transforms.calls import Calls
from isthmus.spark.transforms.python import build_functions
from testing.records import oracle, topics
from testing.records.oracle import Seen
from testing.records.transactions import interleave
from testing.records.trickle import trickling
from testing.runs.changing import Changer, Steps, assert_changed, changing, maps_of, transforms_of
from testing.runs.mirror import Mirror, Reports, all_are
from tests.integration.engine import functions

pytestmark = pytest.mark.integration

TopicNamer = Callable[[str], str]
MARK = ("seen", b"1")
FUNCTIONS = "tests.integration.engine.functions"


class Unsteady:
    """A transform that never decides twice the same: it leaves out two of three records by chance, and numbers others.
    Records of each ninth offset it keeps.
    """

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._number = count()

    def __call__(self, record: Record) -> Changed:
        if record.offset % 9 and self._chance.random() < 0.67:
            return None
        value = b"%d %d %b" % (record.offset, next(self._number), record.value or b"")
        return record._replace(value=value, key=None, headers=[*record.headers, MARK])


def is_of(seen: Seen, there: Seen | None) -> bool:
    """Whether this may have become of a record by `Unsteady`."""
    if there is None:
        return seen.offset % 9 > 0
    offset, _, rest = (there.value or b"").split(b" ", 2)
    is_same = (int(offset), rest, there.timestamp) == (seen.offset, seen.value or b"", seen.timestamp)
    return is_same and there.key is None and list(there.headers) == [*seen.headers, MARK]


def steps_of(chance: random.Random) -> Iterator[Steps]:
    """Ends of engines: at each kind of step, early and late."""
    for _ in range(10):
        yield Steps(chance.randint(0, 40))


def test_records_are_changed_and_left_out(mirror: Mirror, topic: TopicNamer) -> None:
    """Of transactions the committed records come, changed; nothing of what the target holds already is touched."""
    name, chance = topic("changed"), random.Random(7)
    topics.create_both(mirror.source, mirror.target, name)
    topics.produce(mirror.target, name, topics.some(17, chance))
    interleave(mirror.source, name, chance, steps=40)
    topics.produce(mirror.source, name, topics.some(2_000, chance), compression_type="lz4")

    async def scenario() -> Reports:
        transformers = {"one": Changer(Unsteady(chance))}
        async with changing(mirror, name, name, transformers=transformers) as running:
            return await running.until_copied()

    (report,) = asyncio.run(scenario()).values()

    assert len(assert_changed(mirror, name, name, is_of)) == 17
    assert report.records > 200


@pytest.mark.parametrize("number", range(3))
def test_engines_end_between_any_two_steps(mirror: Mirror, topic: TopicNamer, number: int) -> None:
    """Each successor finds what has arrived, whatever it would have decided itself, and goes on behind it."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")  # noqa: T201
    chance = random.Random(seed)
    name = topic(f"ends{number}")
    topics.create_both(mirror.source, mirror.target, name)
    topics.produce(mirror.source, name, topics.some(3_000, chance), batch_size=chance.choice([500, 20_000]))

    async def visit(steps: Steps) -> None:
        transformers = {each: Changer(Unsteady(chance), steps) for each in ("one", "two")}
        transform = chance.choice(["one", "two"])
        async with changing(mirror, name, name, transformers=transformers, steps=steps, transform=transform) as running:
            reaching, copying = (asyncio.create_task(work) for work in (steps.reached.wait(), running.until_copied()))
            done, _ = await asyncio.wait([reaching, copying], return_when=asyncio.FIRST_COMPLETED)
            copying.cancel()
            reaching.cancel()
            assert all(each.exception() is None for each in done)
            # Requests may be on their way.
            await asyncio.sleep(chance.choice([0, chance.random() * 0.005]))
            await running.engine.stop(drain_s=0.0)

    with trickling(mirror.source, name, chance), trickling(mirror.target, name, chance):
        for steps in steps_of(chance):
            asyncio.run(visit(steps))

    async def finish() -> None:
        async with changing(mirror, name, name, transformers={"one": Changer(Unsteady(chance))}) as running:
            await running.until_copied()

    asyncio.run(finish())

    rest = assert_changed(mirror, name, name, is_of)
    assert not any(MARK in seen.headers for seen in rest)
    changes = asyncio.run(transforms_of(mirror, name))
    assert {each.transform for each in changes} <= {"one", "two"}
    assert changes[-1].transform == "one"


def python(function: str, **lane: Any) -> dict[str, Any]:
    """The settings of lanes with a Python function."""
    transform = Transform(python=RecordFunction(FUNCTIONS, function))
    transformers = build_functions([transform], Calls(patience_s=0.1))
    return {"transformers": transformers, "transform": transform.digest, **lane}


def valued(count: int, begin: int = 0) -> list[topics.Given]:
    return [topics.Given(b"k", b"%d" % n, [("h", None)], topics.SEPTEMBER + n) for n in range(begin, begin + count)]


def is_even_and_doubled(seen: Seen, there: Seen | None) -> bool:
    """Whether this became of a record by `functions.even_doubled`."""
    number = int(seen.value or b"")
    if there is None or number % 2:
        return there is None and number % 2 == 1
    return there._replace(offset=0) == seen._replace(offset=0, value=b"%d" % (2 * number))


def test_a_python_function_on_64_partitions(mirror: Mirror, topic: TopicNamer) -> None:
    """Each lane for itself, in order; the function gets Arrow batches."""
    name = topic("many")
    topics.create_both(mirror.source, mirror.target, name, partitions=64)
    for partition in range(64):
        topics.produce(mirror.source, name, valued(100), partition=partition)

    async def scenario() -> Reports:
        async with changing(mirror, name, name, **python("even_doubled")) as running:
            return await running.until_copied()

    reports = asyncio.run(scenario())

    assert {report.records for report in reports.values()} == {50}
    assert assert_changed(mirror, name, name, is_even_and_doubled, partitions=64) == []


def test_a_function_that_hangs_stops_its_own_lane(mirror: Mirror, topic: TopicNamer) -> None:
    """Others go on, its state shows since when it waits, and it goes on once the function returns."""
    name = topic("hanging")
    topics.create_both(mirror.source, mirror.target, name, partitions=3)
    for partition in range(3):
        topics.produce(mirror.source, name, valued(10), partition=partition)
    functions.GATE.clear()
    hanging = LaneKey(TargetTopic(name), 1)

    async def scenario() -> None:
        async with changing(mirror, name, name, **python("hanging_on_one")) as running:
            reports = await running.until(lambda found: found[hanging].state is LaneState.BLOCKED)
            problem = reports[hanging].problem
            assert problem is not None
            assert f"the records from offset 0 of {name}-1 for" in problem.message
            assert reports[hanging].position == 0
            others = [report for key, report in reports.items() if key != hanging]
            assert [(report.state, report.position) for report in others] == [(LaneState.ACTIVE, 10)] * 2
            functions.GATE.set()
            await running.until_copied()

    try:
        asyncio.run(scenario())
    finally:
        functions.GATE.set()

    assert assert_changed(mirror, name, name, is_even_and_doubled, partitions=3) == []


def test_a_record_that_cannot_be_changed_stops_its_lane(mirror: Mirror, topic: TopicNamer) -> None:
    """All before it is copied, the state names it, and the lane goes on when the function takes it."""
    name, others = topic("raising"), topic("calm")
    for each in (name, others):
        topics.create_both(mirror.source, mirror.target, each)
        topics.produce(mirror.source, each, valued(100), batch_size=500)
    functions.BAD.clear()
    functions.BAD.add((name, 57))
    stopped = LaneKey(TargetTopic(name), 0)

    async def scenario() -> None:
        async with changing(mirror, name, name, others, **python("even_doubled")) as running:
            reports = await running.until(lambda found: found[stopped].state is LaneState.BLOCKED)
            problem = reports[stopped].problem
            assert problem is not None
            assert f"the record at offset 57 of {name}-0 cannot be changed: RuntimeError: 57 is bad" in problem.message
            assert (reports[stopped].position, reports[stopped].records) == (57, 29)
            functions.BAD.clear()
            await running.until_copied()

    asyncio.run(scenario())

    for each in (name, others):
        assert assert_changed(mirror, name, each, is_even_and_doubled) == []


def test_records_that_cannot_be_changed_are_skipped(mirror: Mirror, topic: TopicNamer) -> None:
    """If the lane is to skip them they are counted, once, whoever counts."""
    name = topic("skipping")
    topics.create_both(mirror.source, mirror.target, name)
    topics.produce(mirror.source, name, valued(100), batch_size=500)
    functions.BAD.clear()
    functions.BAD.update((name, number) for number in (3, 4, 50, 99))

    async def scenario() -> int:
        async with changing(mirror, name, name, **python("even_doubled", on_error=OnError.SKIP)) as running:
            await running.until_copied()
            running.engine.lanes.transits()
            return running.engine.lanes.reports()[0].skipped

    assert asyncio.run(scenario()) == 4
    assert asyncio.run(scenario()) == 4

    bad = {b"4", b"50"}
    assert (
        assert_changed(
            mirror,
            name,
            name,
            lambda seen, there: there is None if seen.value in bad else is_even_and_doubled(seen, there),
        )
        == []
    )


def test_a_source_that_deleted_what_has_arrived(mirror: Mirror, topic: TopicNamer) -> None:
    """Where arrived records come from is known without reading them again."""
    name, chance = topic("deleted"), random.Random(5)
    topics.create_both(mirror.source, mirror.target, name)
    topics.produce(mirror.source, name, topics.some(300, chance))

    async def copy(*, saves: bool) -> None:
        transformers = {"one": Changer(Unsteady(chance))}
        async with changing(mirror, name, name, transformers=transformers, saves=saves) as running:
            await running.until_copied()

    asyncio.run(copy(saves=False))
    topics.produce(mirror.source, name, topics.some(20, chance))
    # The record at 297 is kept for certain, so it is known to have arrived.
    topics.delete_records(mirror.source, name, 298)
    asyncio.run(copy(saves=True))

    found = asyncio.run(maps_of(mirror, name))[LaneKey(TargetTopic(name), 0)]
    (there,) = oracle.records(mirror.target.admin_bootstrap_servers, name)
    sources = [one.source_begin + n for one in found.offsets.ranges for n in range(one.length)]
    assert sources == [int((seen.value or b"").split()[0]) for seen in there]
    assert sources[0] < 298 <= sources[-1]


def test_an_unknown_transform_stops_its_lane(mirror: Mirror, topic: TopicNamer) -> None:
    """Nothing is copied unchanged, nor left out, whatever the policy for records is."""
    name = topic("unknown")
    topics.create_both(mirror.source, mirror.target, name)
    topics.produce(mirror.source, name, valued(10))

    async def scenario() -> None:
        settings = python("missing", on_error=OnError.SKIP)
        async with changing(mirror, name, name, **settings) as running:
            (report,) = (await running.until(all_are(LaneState.BLOCKED))).values()
            assert report.problem is not None
            assert "cannot be imported" in report.problem.message
            assert report.position == 0

    asyncio.run(scenario())
    assert oracle.ends(mirror.target.admin_bootstrap_servers, name).high == 0
