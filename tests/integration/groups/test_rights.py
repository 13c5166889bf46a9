"""Groups on clusters with an authorizer: what one group lacks is that group's trouble."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import ExitStack

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from isthmus.groups.positions.carrying import Standing
from isthmus.kafka.groups.groups import OFFSETS_TOPIC
from isthmus.ledger.topic import LEDGER_TOPIC
from isthmus.local import LocalCluster
from isthmus.model.configuration import Configuration
from isthmus.model.kafka.findings import Level
from testing.brokers.acls import CLUSTER, denied, deny
from testing.groups import consumers
from testing.groups.carrying import carrying, commit_in_transaction, declared, filled, link_of
from testing.records.topics import as_admin, create
from testing.verbs import examine

pytestmark = pytest.mark.integration

TopicNamer = Callable[[str], str]


def test_a_right_missing_for_one_group(secured: LocalCluster, east: LocalCluster, topic: TopicNamer) -> None:
    """It is NOT_AUTHORIZED and says so, at the source as at the target, and the others are carried."""
    name, free = topic("rights"), topic("free")
    unseen, unwritten = topic("unseen"), topic("unwritten")
    filled(secured, east, name, 10)
    consumers.commit(secured, {group: {(name, 0): 4} for group in (free, unseen)})
    consumers.commit(east, {group: {(name, 0): 5} for group in (free, unwritten)})
    deny(secured, ResourceType.GROUP, unseen, AclOperation.DESCRIBE)
    deny(secured, ResourceType.GROUP, unwritten, AclOperation.READ)
    outwards = link_of(secured.cluster(), as_admin(east), [name], [free, unseen], name=f"{name}-out")
    inwards = link_of(as_admin(east), secured.cluster(), [name], [free, unwritten], name=f"{name}-in")

    async def scenario() -> None:
        async with carrying(outwards) as link:
            await link.until(lambda: link.standing(unseen) is Standing.NOT_AUTHORIZED)
            hidden = link.group(unseen)
            assert hidden is not None
            assert hidden.problem is not None
            assert hidden.problem.hint == f"Grant DESCRIBE on group {unseen} to the principal of source."
            await link.until(lambda: link.standing(free) is Standing.AHEAD_AT_TARGET)
            await asyncio.to_thread(consumers.commit, secured, {free: {(name, 0): 7}})
            await link.until_at(free, {0: 7})
        async with carrying(inwards) as link:
            await link.until(lambda: link.standing(unwritten) is Standing.NOT_AUTHORIZED)
            found = link.group(unwritten)
            assert found is not None
            assert found.problem is not None
            assert f"READ on group {unwritten} is missing" in found.problem.message
            assert found.problem.hint == f"Grant READ on group {unwritten} to the principal of target."
            await asyncio.to_thread(consumers.commit, east, {free: {(name, 0): 9}})
            await link.until_at(free, {0: 9})

    asyncio.run(scenario())


@pytest.mark.parametrize("is_listed", [True, False])
def test_a_group_that_may_be_read_later(
    secured: LocalCluster, east: LocalCluster, topic: TopicNamer, *, is_listed: bool
) -> None:
    """Groups we may not describe are refused, also hidden ones that the log tells of. Later they are carried whole."""
    name, group = topic("late"), topic("late")
    free = f"{group}-free"
    filled(secured, east, name, 10, partitions=2)
    consumers.commit(secured, {group: {(name, 0): 4, (name, 1): 5}, free: {(name, 0): 1}})
    rules = ExitStack()
    link = link_of(secured.cluster(), as_admin(east), [name], [f"{group}*"], name=f"{name}-late")

    async def scenario() -> None:
        async with carrying(link) as running:
            await running.until_at(free, {0: 1})
            await running.until(lambda: running.standing(group) is Standing.NOT_AUTHORIZED)
            await asyncio.to_thread(rules.close)
            await running.until_at(group, {0: 4, 1: 5})

    with rules:
        rules.enter_context(denied(secured, ResourceType.GROUP, group, AclOperation.DESCRIBE))
        if not is_listed:
            rules.enter_context(denied(secured, *CLUSTER, AclOperation.DESCRIBE))
        asyncio.run(scenario())


def test_without_the_log_no_group_is_deleted(secured: LocalCluster, east: LocalCluster, topic: TopicNamer) -> None:
    """A group that is gone as its coordinator says is kept at the target: it may not know it yet."""
    name, group = topic("kept"), topic("kept")
    filled(secured, east, name, 10)
    consumers.commit(secured, {group: {(name, 0): 4}})
    link = link_of(secured.cluster(), as_admin(east), [name], [group], name=name, delete_at_target=True)

    async def scenario() -> None:
        async with carrying(link) as running:
            await running.until_at(group, {0: 4})
            await asyncio.to_thread(consumers.delete_groups, secured, group)
            await running.until(lambda: running.standing(group) is Standing.GONE_AT_SOURCE)
            found = running.group(group)
            assert found is not None
            assert found.problem is not None
            assert OFFSETS_TOPIC in found.problem.hint
            assert await running.offsets(group) == {0: 4}

    with denied(secured, ResourceType.TOPIC, OFFSETS_TOPIC, AclOperation.READ):
        asyncio.run(scenario())


def test_without_the_ledger_of_the_source_transactions_are_carried(
    secured: LocalCluster, east: LocalCluster, topic: TopicNamer
) -> None:
    """Where we may not see which links write to the source, what is committed there in transactions is a consumer's."""
    name, group = topic("unseen"), topic("unseen")
    filled(secured, east, name, 10)
    consumers.commit(secured, {group: {(name, 0): 4}})
    asyncio.run(declared(link_of(as_admin(east), as_admin(secured), [name], [group], name=f"{name}-back")))

    async def scenario() -> None:
        async with carrying(link_of(secured.cluster(), as_admin(east), [name], [group], name=name)) as link:
            await link.until_at(group, {0: 4})
            await asyncio.to_thread(commit_in_transaction, secured, group, {(name, 0): 7})
            await link.until_at(group, {0: 7})

    with denied(secured, ResourceType.TOPIC, LEDGER_TOPIC, AclOperation.READ):
        asyncio.run(scenario())


def test_without_transactions_the_guard_is_weaker_and_says_so(
    secured: LocalCluster, east: LocalCluster, topic: TopicNamer
) -> None:
    """Without WRITE on the transactional id groups are carried all the same; the weakness is told, also by doctor."""
    name, group = topic("unguarded"), topic("unguarded")
    filled(east, secured, name, 10)
    consumers.commit(east, {group: {(name, 0): 6}})
    deny(secured, ResourceType.TRANSACTIONAL_ID, f"isthmus.{name}.groups", AclOperation.WRITE)
    declaration = link_of(as_admin(east), secured.cluster(), [name], [group], name=name)

    async def scenario() -> None:
        async with carrying(declaration) as link:
            await link.until_at(group, {0: 6})
            (note,) = [note for note in link.loop.plan.notes if "could be lost" in note.message]
            right = f"WRITE on transactional id isthmus.{name}.groups"
            assert f"{right} is missing" in note.message
            assert note.hint == f"Grant {right} to the principal of target."
            configuration = Configuration(clusters=(declaration.source, declaration.target), links=(declaration,))
            assert note.hint in [finding.hint for finding in await examine(configuration)]
            with consumers.joined(secured, group, name):
                await asyncio.to_thread(consumers.commit, east, {group: {(name, 0): 8}})
                await link.until(lambda: link.standing(group) is Standing.ACTIVE_AT_TARGET)
            await link.until_at(group, {0: 8})

    asyncio.run(scenario())


def test_doctor_tells_what_groups_lack(secured: LocalCluster, east: LocalCluster, topic: TopicNamer) -> None:
    """A group we may not see, one that reads what is not mirrored, and those that can be carried."""
    name, other = topic("examined"), topic("other")
    free, unseen, elsewhere = topic("free"), topic("unseen"), topic("elsewhere")
    filled(secured, east, name, 10)
    create(secured, other)
    consumers.commit(secured, {free: {(name, 0): 4}, elsewhere: {(other, 0): 0}})
    deny(secured, ResourceType.GROUP, unseen, AclOperation.DESCRIBE)
    link = link_of(secured.cluster(), as_admin(east), [name], [free, unseen, elsewhere], name=name)
    configuration = Configuration(clusters=(link.source, link.target), links=(link,))
    found = [finding for finding in asyncio.run(examine(configuration)) if finding.check == "groups"]
    told = {finding.level: finding.message for finding in found if finding.subject == name}
    assert told[Level.OK] == "1 consumer group can be carried"
    assert unseen in told[Level.ERROR]
    assert any(elsewhere in finding.message and finding.level is Level.WARN for finding in found)
