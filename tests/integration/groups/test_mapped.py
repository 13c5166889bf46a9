"""Groups of topics whose records have other offsets at the target: carried by the map, and never by guessing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from isthmus.groups.positions.carrying import Standing
from isthmus.kafka.groups.groups import CommittedOffsets, committed_offsets
from isthmus.local import LocalCluster
from isthmus.model.text.plain import plain
from testing.groups import consumers
from testing.groups.carrying import between, carrying, declared, filled, going_on, opened, records
from testing.records.mapped import HandMade
from testing.records.topics import SEPTEMBER, Given, create_both

pytestmark = pytest.mark.integration

TopicNamer = Callable[[str], str]


def others(count: int) -> list[Given]:
    """Records that somebody else writes to the target."""
    return [Given(None, b"other %d" % n, [], SEPTEMBER) for n in range(count)]


def half_copied(east: LocalCluster, west: LocalCluster, name: str, *, partition: int = 0) -> HandMade:
    """Records 0 to 20, copied to 3 and 18 (ten each), with records of others before them, in between and behind."""
    made = HandMade(east, west, name, name, partition=partition)
    made.at_target(others(3))
    made.copy(records(10))
    made.at_target(others(5))
    made.copy(records(10, begin=10))
    made.at_target(others(40))
    return made


def test_positions_follow_the_map(east: LocalCluster, west: LocalCluster, topic: TopicNamer) -> None:
    """Forward, and back with the source; in topics of same offsets of the same link they stay what they are."""
    name, plain, group = topic("mapped"), topic("plain"), topic("mapped")
    create_both(east, west, name)
    filled(east, west, plain, 20)
    made = half_copied(east, west, name)
    consumers.commit(east, {group: {(name, 0): 5, (plain, 0): 5}})

    async def scenario() -> None:
        async with carrying(between(east, west, [name, plain], [group], way="mapped")) as link:
            await made.tell()

            async def until(mapped: int, same: int) -> None:
                async def is_there() -> bool:
                    found = await link.position(group)
                    return {key: each.offset for key, each in found.items()} == {(name, 0): mapped, (plain, 0): same}

                await link.until(is_there)

            await until(8, 5)
            for source, target in ((0, 3), (10, 18), (19, 27), (12, 20), (20, 28)):
                offsets = {(name, 0): source, (plain, 0): source}
                await asyncio.to_thread(consumers.commit, east, {group: offsets})
                await until(target, source)
            await link.until(lambda: link.standing(group) is Standing.IN_STEP)

    asyncio.run(scenario())


def test_a_group_waits_for_its_map(east: LocalCluster, west: LocalCluster, topic: TopicNamer) -> None:
    """Without a map nothing is carried; behind its end the group stands at the end, however far the target's log is."""
    name, behind, nowhere = topic("waiting"), topic("behind"), topic("nowhere")
    create_both(east, west, name, partitions=2)
    made = half_copied(east, west, name)
    late = half_copied(east, west, name, partition=1)
    made.at_source(records(5, begin=20))
    consumers.commit(east, {behind: {(name, 0): 24}, nowhere: {(name, 1): 4}})

    async def scenario() -> None:
        async with carrying(between(east, west, [name], [behind, nowhere], way="mapped")) as link:
            await made.tell()
            await link.until_at(behind, {0: 28})
            await link.until(lambda: link.standing(behind) is Standing.CATCHING_UP)
            await link.until(lambda: link.standing(nowhere) is Standing.WAITING_FOR_MAP)
            assert await link.offsets(nowhere) == {}
            made.source_end -= 5
            made.ranges.append(made.ranges[0]._replace(source_begin=20, target_begin=made.target_end, length=5))
            await asyncio.to_thread(made.at_target, records(5, begin=20))
            await made.tell()
            await late.tell()
            await link.until_at(behind, {0: 72})
            await link.until_at(nowhere, {1: 7})
            await link.until(lambda: {link.standing(behind), link.standing(nowhere)} == {Standing.IN_STEP})

    asyncio.run(scenario())


def test_positions_are_not_guessed(east: LocalCluster, west: LocalCluster, topic: TopicNamer) -> None:
    """With way identity a group of a mapped topic is left alone, and says what would help."""
    name, group = topic("guessed"), topic("guessed")
    create_both(east, west, name)
    made = half_copied(east, west, name)
    consumers.commit(east, {group: {(name, 0): 5}})
    link = between(east, west, [name], [group])
    asyncio.run(declared(link))
    made.told()
    (done,) = opened(link).groups.sync()
    (found,) = done.groups
    assert (found.standing, found.has_changes) == (Standing.OFFSETS_DIFFER, False)
    assert found.problem is not None
    assert "way: mapped" in found.problem.hint
    (position,) = plain(found)["positions"]
    assert (position["offsets"], position["translated"], position["target_position"]) == ("mapped", None, None)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_real_consumer_goes_on(east: LocalCluster, west: LocalCluster, topic: TopicNamer, protocol: str) -> None:
    """It reads a part at the source, and at the target what is left of it, once, among what others wrote there."""
    name, group = topic("goes-on"), topic("goes-on")
    create_both(east, west, name)
    made = half_copied(east, west, name)
    consumers.commit(east, {group: {(name, 0): 0}})
    seen = going_on(east, group, name, 7, protocol)

    async def scenario() -> None:
        async with carrying(between(east, west, [name], [group], way="mapped")) as link:
            await made.tell()
            answers: CommittedOffsets[str] = await committed_offsets(link.source, [group])
            stood = answers.values[group][name, 0].offset
            await link.until_at(group, {0: stood + 3})

    asyncio.run(scenario())
    rest = going_on(west, group, name, made.target_end - 10, protocol)
    ours = [value for value in rest if not value.startswith(b"other")]
    assert seen + ours == [b"%d" % n for n in range(20)]
    assert len(rest) - len(ours) == 45


@pytest.mark.parametrize("position", [0, 5, 10, 20])
def test_a_drill_skips_nothing_and_repeats_nothing(
    east: LocalCluster, west: LocalCluster, topic: TopicNamer, position: int
) -> None:
    """Records are told apart by the map: what others wrote behind the position is not read again, it is theirs."""
    name, group = topic("drilled"), topic("drilled")
    create_both(east, west, name)
    made = half_copied(east, west, name)
    made.at_source(records(4, begin=20))
    consumers.commit(east, {group: {(name, 0): position}})
    link = between(east, west, [name], [group], way="mapped")
    asyncio.run(declared(link))
    made.told()
    found = opened(link).groups.drill(group)
    assert (found.way, found.skipped, found.read_again, found.problem) == ("mapped", 0, 0, None)
    (one,) = found.positions
    assert (one.source_position, one.compared, one.waiting) == (position, 20 - position, 4)


def test_a_drill_finds_what_is_wrong(east: LocalCluster, west: LocalCluster, topic: TopicNamer) -> None:
    """A record that is another one at the target, or in no range of the map, would be skipped."""
    name, group = topic("wrong"), topic("wrong")
    create_both(east, west, name)
    made = HandMade(east, west, name, name)
    made.copy(records(10))
    made.at_source(records(2, begin=10))
    made.copy(records(5, begin=12), at_target=[*records(3, begin=12), *others(2)])
    consumers.commit(east, {group: {(name, 0): 8}})
    link = between(east, west, [name], [group], way="mapped")
    asyncio.run(declared(link))
    made.told()
    found = opened(link).groups.drill(group)
    assert (found.skipped, found.read_again) == (4, 0)
    assert [each.compared for each in found.positions] == [9]


def test_a_drill_by_time_counts_what_is_ours(east: LocalCluster, west: LocalCluster, topic: TopicNamer) -> None:
    """With way timestamp a group reads some records of the link's again, and what others wrote besides."""
    name, group = topic("by-time"), topic("by-time")
    create_both(east, west, name)
    made = half_copied(east, west, name)
    consumers.commit(east, {group: {(name, 0): 12}})
    link = between(east, west, [name], [group], way="timestamp", margin_s=4.0)
    asyncio.run(declared(link))
    made.told()
    found = opened(link).groups.drill(group)
    assert (found.skipped, found.read_again, found.problem) == (0, 4, None)


def test_a_drill_that_cannot_be_tried_says_so(east: LocalCluster, west: LocalCluster, topic: TopicNamer) -> None:
    """With way identity nothing of a mapped topic is tried, and the reason is told."""
    name, plain, group = topic("untried"), topic("tried"), topic("untried")
    create_both(east, west, name)
    filled(east, west, plain, 20)
    made = half_copied(east, west, name)
    consumers.commit(east, {group: {(name, 0): 5, (plain, 0): 5}})
    link = between(east, west, [name, plain], [group])
    asyncio.run(declared(link))
    made.told()
    found = opened(link).groups.drill(group)
    assert [each.topic for each in found.positions] == [plain]
    assert found.problem is not None
    assert "way: mapped" in found.problem.hint
