"""Groups carried from one real cluster to another, while their consumers commit, move and go."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial

import pytest
from confluent_kafka import TopicPartition

from isthmus.errors import Unreachable
from isthmus.groups.positions.carrying import Standing
from isthmus.groups.review import GroupReview
from isthmus.kafka.client import Client
from isthmus.kafka.groups.groups import CommittedOffsets, committed_offsets, describe_groups
from isthmus.ledger.documents.kinds import EndedPartition
from isthmus.local import LocalCluster
from isthmus.model.kafka.group import Committed, GroupState
from isthmus.model.link import Link
from isthmus.model.naming import NameTemplate, PrefixNaming, SourceTopic, TemplateNaming
from isthmus.model.process.timings import Timings
from testing.groups import consumers
from testing.groups.carrying import Carrying, between, carrying, commit_in_transaction, filled, records
from testing.patience import TERM_S, UNFENCED
from testing.records.topics import create, create_both, delete_records, produce

pytestmark = pytest.mark.integration

TopicNamer = Callable[[str], str]


def test_positions_follow_their_group(east: LocalCluster, west: LocalCluster, topic: TopicNamer) -> None:
    """Forward, back with the source, with their metadata, each at once; leader epochs are not copied."""
    # All of it is heard of: no other look at all groups comes after the first.
    timings = Timings(groups_s=600.0)
    name, group = topic("follow"), topic('any/"имя" \U0001f600\t')
    filled(east, west, name, 20)
    consumers.commit(east, {group: {(name, 0): 5}})

    async def scenario() -> None:
        async with carrying(between(east, west, [name], [group]), timings=timings) as link:
            await link.until_at(group, {0: 5})
            for offset in (6, 12, 3, 20):
                await asyncio.to_thread(consumers.commit, east, {group: {(name, 0): offset}})
                await link.until_at(group, {0: offset})
            await link.until(lambda: link.standing(group) is Standing.IN_STEP)
            with consumers.joined(east, group, name) as member:
                noted = TopicPartition(name, 0, 7, metadata="noted")
                await asyncio.to_thread(member.commit, offsets=[noted], asynchronous=False)
            await link.until_at(group, {0: 7})
            answers: CommittedOffsets[str] = await committed_offsets(link.source, [group])
            noted_at_source = answers.values[group][name, 0]
            assert noted_at_source.metadata.startswith("noted")
            assert await link.position(group) == {(name, 0): Committed(7, metadata=noted_at_source.metadata)}

    asyncio.run(scenario())


def test_what_stands_beside_a_position_keeps_none_of_them(east: LocalCluster, topic: TopicNamer) -> None:
    """A target that takes less metadata than the source has the positions of all partitions, and the group says that
    one came without; it is not written again and again.
    """
    name, group = topic("beside"), topic("group")

    async def scenario(short: LocalCluster) -> None:
        async with carrying(between(east, short, [name], [group]), timings=Timings(groups_s=0.2)) as link:
            await link.until_at(group, {0: 7, 1: 5})
            found_there = await link.position(group)
            assert found_there[name, 0].metadata == ""
            # librdkafka counts a zero behind it.
            assert found_there[name, 1].metadata.startswith("short")
            for _ in range(2):
                number = link.loop.begin_pass()
                await link.until(partial(link.loop.has_ended, number))
                found = link.group(group)
                assert found is not None
                assert found.standing is Standing.IN_STEP
                assert found.problem is not None
                assert "OFFSET_METADATA_TOO_LARGE" in found.problem.message

    with LocalCluster.start(
        "short", brokers=1, heap_mb=256, properties={**UNFENCED, "offset.metadata.max.bytes": "20"}
    ) as short:
        filled(east, short, name, 10, partitions=2)
        with consumers.joined(east, group, name) as member:
            noted = [
                TopicPartition(name, 0, 7, metadata="long" * 10),
                TopicPartition(name, 1, 5, metadata="short"),
            ]
            member.commit(offsets=noted, asynchronous=False)
        asyncio.run(scenario(short))


def test_a_position_is_never_beyond_the_log(east: LocalCluster, west: LocalCluster, topic: TopicNamer) -> None:
    """While the mirror catches up the position is the end of what is there; below the log start it is the start."""
    name, ahead, behind, empty = topic("within"), topic("ahead"), topic("behind"), topic("empty")
    create_both(east, west, name, partitions=2)
    produce(east, name, records(30))
    produce(west, name, records(10))
    delete_records(west, name, 4)
    consumers.commit(east, {ahead: {(name, 0): 25}, behind: {(name, 0): 2}, empty: {(name, 1): 0}})

    async def scenario() -> None:
        async with carrying(between(east, west, [name], [ahead, behind, empty])) as link:
            await link.until_at(ahead, {0: 10})
            await link.until_at(behind, {0: 4})
            await link.until_at(empty, {1: 0})
            assert link.standing(ahead) is Standing.CATCHING_UP
            await asyncio.to_thread(produce, west, name, records(5, begin=10))
            await link.until_at(ahead, {0: 15})
            await asyncio.to_thread(produce, west, name, records(15, begin=15))
            await link.until_at(ahead, {0: 25})
            await link.until(lambda: link.standing(ahead) is Standing.IN_STEP)

    asyncio.run(scenario())


def test_a_partition_that_is_no_copy_any_more(east: LocalCluster, west: LocalCluster, topic: TopicNamer) -> None:
    """Its positions are carried again when it is sound again; those of the topic's other partitions all the time."""
    name, group = topic("ended"), topic("ended")
    filled(east, west, name, 20, partitions=2)
    consumers.commit(east, {group: {(name, 0): 5, (name, 1): 5}})

    async def scenario() -> None:
        async with carrying(between(east, west, [name], [group])) as link:
            await link.until_at(group, {0: 5, 1: 5})
            await link.tell(name, ended=(EndedPartition(partition=1, state="DIVERGED"),))
            await asyncio.to_thread(consumers.commit, east, {group: {(name, 0): 8, (name, 1): 8}})
            await link.until_at(group, {0: 8, 1: 5})
            await link.until(lambda: link.standing(group) is Standing.MIRROR_ENDED)
            await link.tell(name, ended=(EndedPartition(partition=1, state="DATA_GAP"),))
            await link.until_at(group, {0: 8, 1: 8})

    asyncio.run(scenario())


def test_a_group_at_work_at_the_target_is_left_alone(east: LocalCluster, west: LocalCluster, topic: TopicNamer) -> None:
    """While it has members there its own commits count, also when it has left: it is not moved back to the source's."""
    name, group, free = topic("active"), topic("active"), topic("free")
    filled(east, west, name, 20)
    consumers.commit(east, {group: {(name, 0): 5}})

    async def scenario() -> None:
        async with carrying(between(east, west, [name], [group, free])) as link:
            await link.until_at(group, {0: 5})
            with consumers.joined(west, group, name) as member:
                await asyncio.to_thread(consumers.commit, east, {group: {(name, 0): 8}, free: {(name, 0): 9}})
                await link.until(lambda: link.standing(group) is Standing.ACTIVE_AT_TARGET)
                await link.until_at(free, {0: 9})
                assert await link.offsets(group) == {0: 5}
                own = TopicPartition(name, 0, 15)
                await asyncio.to_thread(member.commit, offsets=[own], asynchronous=False)
            await asyncio.to_thread(consumers.commit, east, {group: {(name, 0): 10}})
            await link.until(lambda: link.standing(group) is Standing.AHEAD_AT_TARGET)
            await asyncio.to_thread(consumers.commit, east, {group: {(name, 0): 2}})
            await asyncio.sleep(0.6)
            assert await link.offsets(group) == {0: 15}
            await asyncio.to_thread(consumers.commit, east, {group: {(name, 0): 18}})
            await link.until_at(group, {0: 18})

    asyncio.run(scenario())


def test_what_was_written_survives_a_restart(east: LocalCluster, west: LocalCluster, topic: TopicNamer) -> None:
    """A source that was moved back while no controller ran is followed back; unknown topics are no obstacle."""
    name, other, group = topic("restart"), topic("other"), topic("restart")
    filled(east, west, name, 20)
    create(east, other)
    consumers.commit(east, {group: {(name, 0): 15, (other, 0): 0}})
    link_settings = between(east, west, [name], [group])

    async def scenario() -> None:
        async with carrying(link_settings) as link:
            await link.until_at(group, {0: 15})
            found = link.group(group)
            assert found is not None
            assert {p.topic: p.standing for p in found.positions}[SourceTopic(other)] is Standing.NOT_MIRRORED
        await asyncio.to_thread(consumers.commit, east, {group: {(name, 0): 4}})
        async with carrying(link_settings) as link:
            await link.until_at(group, {0: 4})

    asyncio.run(scenario())


def test_what_a_controller_set_back_before_it_was_killed(
    east: LocalCluster, west: LocalCluster, topic: TopicNamer
) -> None:
    """Its successor knows the position as the link's own, so that the group moves on with its source."""
    name, group = topic("killed"), topic("killed")
    filled(east, west, name, 20)
    consumers.commit(east, {group: {(name, 0): 15}})
    link_settings = between(east, west, [name], [group])

    async def killed() -> None:
        # Nothing is remembered on leaving by an error.
        async with carrying(link_settings, timings=Timings(remember_s=600.0)) as link:
            await link.until(lambda: link.standing(group) is Standing.IN_STEP)
            await asyncio.to_thread(consumers.commit, east, {group: {(name, 0): 4}})
            await link.until_at(group, {0: 4})
            raise InterruptedError

    async def scenario() -> None:
        async with carrying(link_settings) as link:
            await link.until_at(group, {0: 15})
        with pytest.raises(InterruptedError):
            await killed()
        await asyncio.to_thread(consumers.commit, east, {group: {(name, 0): 15}})
        async with carrying(link_settings) as link:
            await link.until_at(group, {0: 15})

    asyncio.run(scenario())


def test_groups_under_other_names_and_deleted_ones(east: LocalCluster, west: LocalCluster, topic: TopicNamer) -> None:
    """A prefix takes the place of another; a group deleted at the source goes at the target if so configured."""
    name, stem = topic("renamed"), topic("stem")
    kept, used = f"{stem}.kept", f"{stem}.used"
    filled(east, west, name, 20)
    consumers.commit(east, {kept: {(name, 0): 5}, used: {(name, 0): 6}})
    naming = PrefixNaming(source_prefix=f"{stem}.", target_prefix=f"east.{stem}.")
    settings = between(east, west, [name], [f"{stem}.*"], naming=naming, delete_at_target=True)

    async def state(client: Client, group: str) -> GroupState:
        return (await describe_groups(client, [group])).values[group].state

    async def scenario() -> None:
        async with carrying(settings) as link:
            await link.until_at(f"east.{kept}", {0: 5})
            await link.until_at(f"east.{used}", {0: 6})
            await asyncio.to_thread(consumers.commit, west, {f"east.{used}": {(name, 0): 9}})
            await asyncio.to_thread(consumers.delete_groups, east, kept, used)

            async def is_gone() -> bool:
                return await state(link.target, f"east.{kept}") is GroupState.DEAD

            await link.until(is_gone)
            await link.until(lambda: link.standing(used) is Standing.GONE_AT_SOURCE)
            assert await link.offsets(f"east.{used}") == {0: 9}

    asyncio.run(scenario())


def test_a_link_that_commits_nothing(east: LocalCluster, west: LocalCluster, topic: TopicNamer) -> None:
    """It follows what groups commit at the source and tells what that is at the target, where no group comes to be."""
    name, group = topic("translated"), topic("billing")
    filled(east, west, name, 20)
    consumers.commit(east, {group: {(name, 0): 5}})

    async def scenario() -> None:
        async with carrying(between(east, west, [name], [group], commit=False)) as link:
            await link.until(lambda: link.standing(group) is Standing.TRANSLATED)
            await asyncio.to_thread(consumers.commit, east, {group: {(name, 0): 9}})

            def is_followed() -> bool:
                found = link.group(group)
                return found is not None and [p.translated for p in found.positions] == [9]

            await link.until(is_followed)
            assert await link.offsets(group) == {}

    asyncio.run(scenario())


def test_groups_that_would_meet_in_one_name(east: LocalCluster, west: LocalCluster, topic: TopicNamer) -> None:
    """Neither is carried as long as there are two; the one that is left is, and others always were."""
    name, stem = topic("meeting"), topic("stem")
    one, two, other = f"{stem}-1-billing", f"{stem}-2-billing", f"{stem}-1-audit"
    filled(east, west, name, 20)
    consumers.commit(east, {one: {(name, 0): 5}, two: {(name, 0): 9}, other: {(name, 0): 7}})
    naming = TemplateNaming(
        source=NameTemplate.parse(stem + "-{instance}-{group}"), target=NameTemplate.parse(stem + "-{group}")
    )

    async def scenario() -> None:
        async with carrying(between(east, west, [name], [f"{stem}*"], naming=naming)) as link:
            await link.until_at(f"{stem}-audit", {0: 7})
            await link.until(lambda: {link.standing(one), link.standing(two)} == {Standing.NAMES_MEET})
            assert await link.offsets(f"{stem}-billing") == {}
            await asyncio.to_thread(consumers.delete_groups, east, two)
            await link.until_at(f"{stem}-billing", {0: 5})

    asyncio.run(scenario())


def test_positions_by_timestamp(east: LocalCluster, west: LocalCluster, topic: TopicNamer) -> None:
    """By time a position is never behind its record, and before it only by the margin; at the end likewise."""
    name = topic("timed")
    groups = {topic("timed"): at for at in (0, 7, 20, 999)}
    filled(east, west, name, 20)
    consumers.commit(east, {group: {(name, 0): at} for group, at in groups.items()})

    async def scenario() -> None:
        settings = between(east, west, [name], list(groups), way="timestamp", margin_s=3.0)
        async with carrying(settings) as link:
            for group, at in groups.items():
                await link.until_at(group, {0: max(min(at, 19) - 3, 0)})

    asyncio.run(scenario())


def test_two_hundred_groups_in_one_pass(east: LocalCluster, west: LocalCluster, topic: TopicNamer) -> None:
    """200 groups with 50 partitions each follow what is heard of their commits, without another look at all."""
    timings = Timings(groups_s=600.0)
    name = topic("many")
    groups = [topic("many") for _ in range(200)]
    filled(east, west, name, 10, partitions=50)
    consumers.commit(east, {group: {(name, p): p % 10 for p in range(50)} for group in groups})
    pattern = f"/{'|'.join(groups)}/"

    async def scenario() -> None:
        async with carrying(between(east, west, [name], [pattern]), timings=timings) as link:
            expected = {p: p % 10 for p in range(50)}
            await link.until(lambda: len(link.loop.plan.groups) == 200)
            for group in groups:
                await link.until_at(group, expected)
            later = {p: p % 10 + 1 for p in range(50)}
            await asyncio.to_thread(
                consumers.commit, east, {g: {(name, p): o for p, o in later.items()} for g in groups}
            )

            async def are_there() -> bool:
                answers: CommittedOffsets[str] = await committed_offsets(link.target, groups, require_stable=True)
                found = answers.values
                return all({p: c.offset for (_, p), c in found.get(g, {}).items()} == later for g in groups)

            await link.until(are_there)

    asyncio.run(scenario())


def test_a_pass_tries_again_what_it_could_not_look_at(
    east: LocalCluster, west: LocalCluster, topic: TopicNamer
) -> None:
    """While a transaction holds a group's position at the target no pass over all groups is over."""
    timings = Timings(patience_s=600.0)
    name, group = topic("held"), topic("held")
    filled(east, west, name, 20)
    consumers.commit(east, {group: {(name, 0): 7}})
    producer = consumers.transactional(west, group)
    producer.begin_transaction()
    consumers.send_offsets(producer, west, group, {(name, 0): 3})

    async def scenario() -> None:
        async with carrying(between(east, west, [name], [group]), timings=timings) as link:
            number = link.loop.begin_pass()
            await link.until(lambda: link.loop._agenda.has_ended(number))
            assert (link.standing(group), link.loop.has_ended(number)) == (Standing.UNAVAILABLE, False)
            await asyncio.to_thread(producer.abort_transaction, TERM_S)
            await link.until(lambda: link.loop.has_ended(number))
            assert link.standing(group) is Standing.IN_STEP
            await link.until_at(group, {0: 7})

    asyncio.run(scenario())


def each_way(east: LocalCluster, west: LocalCluster, name: str, group: str) -> tuple[Link, Link]:
    """A link from east to west for one group of one topic, and one back."""
    back = between(west, east, [name], [group])
    return between(east, west, [name], [group]), replace(back, name=f"{name}-back")


def test_two_directions_do_not_undo_each_other(east: LocalCluster, west: LocalCluster, topic: TopicNamer) -> None:
    """With a link each way a group that moves on, or is set back, at either side is followed by the other."""
    name, group = topic("both"), topic("both")
    filled(east, west, name, 20)
    consumers.commit(east, {group: {(name, 0): 15}})
    forth, back = each_way(east, west, name, group)

    async def scenario() -> None:
        async with carrying(forth) as outwards, carrying(back) as homewards:
            for cluster, offset in ((east, 17), (east, 4), (west, 9), (west, 2), (east, 20)):
                await asyncio.to_thread(consumers.commit, cluster, {group: {(name, 0): offset}})
                # Passing by is not enough: both links have to have seen it, and to leave it there.
                await outwards.until_in_step(group, offset)
                await homewards.until_in_step(group, offset)
                assert await outwards.offsets(group) == await homewards.offsets(group) == {0: offset}

    asyncio.run(scenario())


@pytest.mark.parametrize("delay_s", [0.09, 0.15, 0.6])
@pytest.mark.parametrize("late", ["forth", "back"])
def test_a_link_that_is_late_undoes_nothing(
    east: LocalCluster,
    west: LocalCluster,
    topic: TopicNamer,
    late: str,
    delay_s: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the other link wrote at its source is no news, also when it hears of it after the target was moved again."""
    name, group = topic("late"), topic("late")
    filled(east, west, name, 20)
    consumers.commit(east, {group: {(name, 0): 4}})
    forth, back = each_way(east, west, name, group)

    async def scenario() -> None:
        async with carrying(forth) as outwards, carrying(back) as homewards:
            await outwards.until_in_step(group, 4)
            await homewards.until_in_step(group, 4)
            running = {"forth": outwards, "back": homewards}
            delay(monkeypatch, running[late], delay_s)
            near, far = (west, east) if late == "forth" else (east, west)
            for cluster, offset in ((near, 8), (far, 3), (near, 9), (near, 2)):
                await asyncio.to_thread(consumers.commit, cluster, {group: {(name, 0): offset}})
                follower = outwards if cluster is east else homewards
                await follower.until_at(group, {0: offset})
            for link in (outwards, homewards):
                await link.until_in_step(group, 2)
            await asyncio.sleep(2 * delay_s)
            assert await outwards.offsets(group) == await homewards.offsets(group) == {0: 2}

    asyncio.run(scenario())


def test_who_committed_has_to_be_known(
    east: LocalCluster, west: LocalCluster, topic: TopicNamer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A group waits while it cannot be told whether a link in the other direction committed for it; others do not."""
    name, group, plain = topic("who"), topic("who"), topic("plain")
    filled(east, west, name, 20)
    consumers.commit(east, {plain: {(name, 0): 2}})

    async def fail(_: Collection[int]) -> None:
        raise Unreachable("the ledger of the source has no leader")

    async def scenario() -> None:
        async with carrying(between(east, west, [name], [group, plain])) as link:
            await link.until_at(plain, {0: 2})
            with monkeypatch.context() as patch:
                assert isinstance(link.loop._review, GroupReview)
                patch.setattr(link.loop._review._counterparts, "learn", fail)
                await asyncio.to_thread(commit_in_transaction, east, group, {(name, 0): 7})
                await asyncio.to_thread(consumers.commit, east, {plain: {(name, 0): 3}})
                await link.until_at(plain, {0: 3})
                await link.until(lambda: link.standing(group) is Standing.UNAVAILABLE)
                assert await link.offsets(group) == {}
            await link.until_at(group, {0: 7})

    asyncio.run(scenario())


def delay(monkeypatch: pytest.MonkeyPatch, link: Carrying, delay_s: float) -> None:
    """Make a link look at its groups some time after it heard of them."""
    carry = link.loop._carry

    async def carry_later(due: Collection[str]) -> None:
        await asyncio.sleep(delay_s)
        await carry(due)

    monkeypatch.setattr(link.loop, "_carry", carry_later)
