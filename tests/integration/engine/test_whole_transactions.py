"""Lanes that are whole: transactions are copied as such, before it is known how they end."""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import Any, Final, cast

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from isthmus.engine.reader import SourceReader
from isthmus.errors import NotAuthorized, Unreachable
from isthmus.fabric.fabric import Fabric
from isthmus.kafka import codes
from isthmus.kafka.client import Client
from isthmus.kafka.connect.connection import Connection
from isthmus.kafka.log import produce
from isthmus.kafka.transactions.aborting import abort_transactions
from isthmus.kafka.transactions.finishing import find_unfinished
from isthmus.ledger.documents.kinds import TopicDocument
from isthmus.ledger.log import append_once
from isthmus.local import LocalCluster
from isthmus.local.zookeeper import ZooKeeperModeCluster
from isthmus.memory.forgetting import Forgotten
from isthmus.model.configuration import LedgerSettings
from isthmus.model.gateways.prepared import PreparedCommit, PreparedPart
from isthmus.model.kafka.transactions import AbortedPolicy, OpenTransaction, Visibility
from isthmus.model.lane import LaneKey, LaneState
from isthmus.model.link import Link, Transactions
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.selection import TopicPattern, TopicSettings
from isthmus.model.text.plain import plain
from soak.aborted import one
from testing.brokers.acls import denied
from testing.brokers.hanging import trusting
from testing.brokers.legacy import Old
from testing.patience import TERM_S, UNFENCED
from testing.records import oracle, topics
from testing.records.transactions import TransactionalProducer, copied, interleave
from testing.runs.mirror import Mirror, all_are, reached
from testing.runs.running import configuration_of, link_of
from testing.verbs import forget

pytestmark = pytest.mark.integration

TopicNamer = Callable[[str], str]
TRUSTING: Final = {"transaction.partition.verification.enable": "false"}
_SOME: Final = 40


@pytest.fixture(scope="module")
def unverified() -> Iterator[LocalCluster]:
    """A cluster whose brokers take records of transactions that no coordinator knows."""
    with LocalCluster.start("unverified", brokers=1, heap_mb=256, properties={**UNFENCED, **TRUSTING}) as cluster:
        yield cluster


async def let_go(cluster: LocalCluster, name: str) -> tuple[OpenTransaction, ...]:
    """Abort what is open, as a failover does."""
    async with Client(cluster.cluster()) as client:
        return await abort_transactions(client, [name], mirrored=True)


def test_transactions_are_copied_as_they_are(
    east: LocalCluster, unverified: LocalCluster, topic: TopicNamer, chance: random.Random
) -> None:
    """Whatever engines are cut off, both logs are the same to consumers of either isolation level."""
    name = topic("whole")
    topics.create_both(east, unverified, name)
    interleave(east, name, chance, steps=160)

    Mirror(east, unverified).copy_with_crashes(name, chance, crashes=6, is_whole=True)

    assert oracle.assert_same(east, unverified, name) > 0
    ids = oracle.producer_ids(unverified, name)
    assert sum(each >= 1 << 62 for each in ids) >= 3


def test_what_is_open_is_there_before_it_is_decided(
    east: LocalCluster, unverified: LocalCluster, topic: TopicNamer, chance: random.Random
) -> None:
    """Records of an open transaction are at the target, and are seen when that is committed, all at once; plain ones
    behind it come at once as well.
    """
    name = topic("prepared")
    topics.create_both(east, unverified, name)
    mirror = Mirror(east, unverified)
    writer = TransactionalProducer(east, f"{name}-id")
    writer.send(name, topics.some(_SOME, chance))
    plain = topics.producer(east)
    topics.send(plain, name, topics.some(3, chance))
    topics.flush(plain)
    servers = unverified.admin_bootstrap_servers

    async def scenario() -> None:
        async with mirror.running(name, is_whole=True) as running:
            await running.until(copied(_SOME + 3))
            assert await asyncio.to_thread(oracle.ends, servers, name) == oracle.Ends(0, 0, _SOME + 3)
            await running.engine.stop(drain_s=0.0)
        # Whoever goes on finds it, and ends it.
        async with mirror.running(name, is_whole=True) as running:
            await running.until(copied(_SOME + 3))
            await asyncio.to_thread(writer.send, name, topics.some(_SOME, chance))
            await running.until(copied(2 * _SOME + 3))
            assert (await asyncio.to_thread(oracle.ends, servers, name)).stable == 0
            await asyncio.to_thread(writer.end, commit=True)
            await running.until(copied(2 * _SOME + 4))
            # Each record that this engine copied is in the latency of the link.
            assert sum(running.engine.latency) == _SOME

    asyncio.run(scenario())

    assert oracle.assert_same(east, unverified, name) == 2 * _SOME + 3


def test_what_has_to_be_taken_apart_stays_in_its_transaction(
    east: LocalCluster, unverified: LocalCluster, topic: TopicNamer, chance: random.Random
) -> None:
    """Batches that are too large for the target, and stamps of the source's brokers, which are written into records."""
    name = topic("apart")
    topics.create(east, name, message_timestamp_type="LogAppendTime")
    topics.create(unverified, name)
    writer = TransactionalProducer(east, f"{name}-id", linger_ms=50)
    writer.send(name, topics.some(_SOME, chance, value_bytes=5_000))
    Mirror(east, unverified).copy(name, until=copied(_SOME), is_whole=True, batch_bytes_max=20_000)
    assert oracle.ends(unverified.admin_bootstrap_servers, name) == oracle.Ends(0, 0, _SOME)
    writer.end(commit=True)

    Mirror(east, unverified).copy(name, is_whole=True, batch_bytes_max=20_000)

    assert oracle.assert_same(east, unverified, name, same_timestamp_type=False) == _SOME


@pytest.mark.parametrize("aborted", AbortedPolicy)
def test_from_record_to_whole_and_back(
    east: LocalCluster, unverified: LocalCluster, topic: TopicNamer, chance: random.Random, aborted: AbortedPolicy
) -> None:
    """A link may change from one to the other at any offset, within transactions too."""
    name = topic(f"changing-{aborted}")
    topics.create_both(east, unverified, name)
    interleave(east, name, chance, steps=160, producers=2)
    mirror = Mirror(east, unverified)
    end = oracle.ends(east.admin_bootstrap_servers, name).stable

    for step, offset in enumerate(sorted(chance.sample(range(end), 8))):
        mirror.copy(
            name,
            until=reached(offset),
            is_whole=step % 2 == 0,
            aborted=aborted,
        )
    mirror.copy(name, aborted=aborted)

    isolations = oracle.ISOLATIONS if aborted is not AbortedPolicy.OMIT else ("read_committed",)
    oracle.assert_same(east, unverified, name, isolations=isolations)


def test_brokers_begin_to_verify_within_a_transaction(mirror: Mirror, topic: TopicNamer, chance: random.Random) -> None:
    """What is open then is ended as at the source; what begins later becomes visible record by record."""
    name = topic("verifying")
    topics.create_both(mirror.source, mirror.target, name)
    first, second = (TransactionalProducer(mirror.source, f"{name}-{number}") for number in range(2))
    first.send(name, topics.some(_SOME, chance))

    async def scenario() -> None:
        settings = {"is_whole": True, "aborted": AbortedPolicy.AUTO}
        async with mirror.running(name, **settings) as running:
            with trusting(mirror.target):
                await running.until(copied(_SOME))
            await asyncio.to_thread(first.send, name, topics.some(_SOME, chance))
            await running.until(copied(2 * _SOME))
            await asyncio.to_thread(second.send, name, topics.some(_SOME, chance))
            await asyncio.to_thread(first.send, name, topics.some(_SOME, chance))
            await asyncio.to_thread(first.end, commit=True)
            await asyncio.to_thread(second.end, commit=False)
            await running.until(copied(4 * _SOME + 2))

    asyncio.run(scenario())

    assert oracle.assert_same(mirror.source, mirror.target, name, isolations=("read_committed",)) == 3 * _SOME


def test_verification_is_turned_on_and_off(mirror: Mirror, topic: TopicNamer, chance: random.Random) -> None:
    """A lane takes transactions whole whenever it is placed anew and may; what it began it ends, whatever brokers do
    by then, and what it began record by record it ends so.
    """
    name = topic("turned")
    topics.create_both(mirror.source, mirror.target, name)
    interleave(mirror.source, name, chance, steps=160)
    end = oracle.ends(mirror.source.admin_bootstrap_servers, name).stable

    for step, offset in enumerate(sorted(chance.sample(range(end), 8))):
        with nullcontext() if step % 2 else trusting(mirror.target):
            mirror.copy(name, until=reached(offset), is_whole=True, aborted=AbortedPolicy.AUTO)
    mirror.copy(name, is_whole=True, aborted=AbortedPolicy.AUTO)

    oracle.assert_same(mirror.source, mirror.target, name, isolations=("read_committed",))
    assert max(oracle.producer_ids(mirror.target, name)) >= 1 << 62


def test_whole_with_brokers_of_3_9(east: LocalCluster, topic: TopicNamer, chance: random.Random) -> None:
    """The last ones with ZooKeeper, which verify unless they are told not to."""
    name = topic("older")
    with ZooKeeperModeCluster.start("3.9.1") as target:
        old = cast(LocalCluster, Old(target.bootstrap_servers))
        topics.configure_broker(old, node_id=0, transaction_partition_verification_enable="false")
        topics.create(east, name)
        topics.create(old, name)
        interleave(east, name, chance, steps=120)

        Mirror(east, old).copy_with_crashes(name, chance, crashes=4, is_whole=True)

        oracle.assert_same(east, old, name)


def test_no_transaction_is_ever_seen_in_part(east: LocalCluster) -> None:
    """Brokers are killed and engines are cut off: consumers at read_committed get past all of it, or none."""
    with LocalCluster.start("breakable", brokers=1, heap_mb=256, properties=TRUSTING) as target:
        assert asyncio.run(one(east, target, 1, 4, AbortedPolicy.AUTO, is_whole=True)) == []


def copied_open(
    source: LocalCluster, target: LocalCluster, name: str, chance: random.Random
) -> tuple[TransactionalProducer, Mirror]:
    """A topic with an open transaction, which is at the target as well."""
    topics.create_both(source, target, name)
    writer, mirror = TransactionalProducer(source, f"{name}-id"), Mirror(source, target)
    writer.send(name, topics.some(_SOME, chance))
    mirror.copy(name, until=copied(_SOME), is_whole=True)
    return writer, mirror


def test_what_a_gap_cuts_is_aborted(
    east: LocalCluster, unverified: LocalCluster, topic: TopicNamer, chance: random.Random
) -> None:
    """Where the source has deleted the end of a transaction, the target's is aborted, and the lane goes on."""
    name = topic("cut")
    writer, mirror = copied_open(east, unverified, name, chance)
    writer.end(commit=True)
    writer.send(name, topics.some(2, chance))
    writer.end(commit=True)
    topics.delete_records(east, name, _SOME + 2)

    reports = mirror.copy(name, is_whole=True, continues_after_gap=True)

    assert reports[LaneKey(TargetTopic(name), 0)].position == _SOME + 4
    servers = unverified.admin_bootstrap_servers
    assert oracle.ends(servers, name).stable == _SOME + 4
    assert [record.offset for record in oracle.records(servers, name)[0]] == [_SOME + 2]


def test_a_plan_finds_nothing_wrong_with_what_is_open(
    east: LocalCluster, unverified: LocalCluster, topic: TopicNamer, chance: random.Random
) -> None:
    """The target ends beyond the last stable offset of the source then, which is no divergence; so does a later run."""
    name = topic("planned")
    writer, mirror = copied_open(east, unverified, name, chance)
    link = link_of(east.cluster(), unverified.cluster(), name, name=name)

    for visibility in (Visibility.WHOLE, Visibility.RECORD):
        wanting = replace(link, transactions=Transactions(visibility=visibility))
        (planned,) = Fabric(configuration_of(wanting)).plan().links
        assert plain(planned)["visibility"] == visibility
        assert (planned.problem, planned.has_refusals, planned.is_examined) == (None, False, True)
        assert {lane.is_whole for each in planned.topics for lane in each.lanes} == {visibility is Visibility.WHOLE}
    reports = mirror.copy(name, until=all_are(LaneState.ACTIVE))
    assert reports[LaneKey(TargetTopic(name), 0)].position == _SOME
    writer.end(commit=True)
    mirror.copy(name)

    assert oracle.assert_same(east, unverified, name) == _SOME


@pytest.mark.parametrize(
    ("ends", "state"),
    [
        ([(0, False), (1, False)], LaneState.ACTIVE),
        ([(0, True), (1, False)], LaneState.FOREIGN_WRITE),
        ([(1, False), (0, False)], LaneState.FOREIGN_WRITE),
    ],
)
def test_what_a_failover_aborted_has_to_end_so_at_the_source(
    east: LocalCluster,
    unverified: LocalCluster,
    topic: TopicNamer,
    chance: random.Random,
    ends: list[tuple[int, bool]],
    state: LaneState,
) -> None:
    """Where a lane goes on after that, each end is held against the source's, not the last one alone: all have to be
    aborts, of the same producers.
    """
    name = topic("reattached")
    topics.create_both(east, unverified, name)
    mirror = Mirror(east, unverified)
    writers = [TransactionalProducer(east, f"{name}-{number}") for number in range(2)]
    for writer in writers:
        writer.send(name, topics.some(_SOME, chance))
    mirror.copy(name, until=copied(2 * _SOME), is_whole=True)

    assert [each.first_offset for each in asyncio.run(let_go(unverified, name))] == [0, _SOME]
    for number, commit in ends:
        writers[number].end(commit=commit)

    mirror.copy(name, until=all_are(state), is_whole=True)
    if state is LaneState.ACTIVE:
        # Their producers go on.
        for writer in writers:
            writer.send(name, topics.some(_SOME, chance))
            writer.end(commit=True)
        mirror.copy(name, is_whole=True)
        assert oracle.assert_same(east, unverified, name) == 4 * _SOME


@pytest.mark.parametrize("commit", [False, True])
def test_who_led_before_waits_for_its_own_transactions(
    unverified: LocalCluster, west: LocalCluster, topic: TopicNamer, chance: random.Random, commit: bool
) -> None:
    """A failover has aborted what was open; the cluster that comes back as a follower has it open still. Its
    coordinator's end takes the offset of that abort, and is the same, or it is not.
    """
    name = topic("back")
    topics.create_both(west, unverified, name)
    writer = TransactionalProducer(west, f"{name}-id")
    writer.send(name, topics.some(_SOME, chance))
    Mirror(west, unverified).copy(name, until=copied(_SOME), is_whole=True)
    assert len(asyncio.run(let_go(unverified, name))) == 1
    topics.produce(unverified, name, topics.some(3, chance))

    async def scenario() -> None:
        async with Mirror(unverified, west).running(name, is_whole=commit) as running:
            (report,) = (await running.until(all_are(LaneState.BLOCKED))).values()
            assert report.problem is not None
            assert f"the transaction of {name}-id is open at the target" in report.problem.message
            await asyncio.to_thread(writer.end, commit=commit)
            await running.until(all_are(LaneState.FOREIGN_WRITE) if commit else copied(_SOME + 4), may_end=commit)

    asyncio.run(scenario())

    if not commit:
        assert oracle.assert_same(unverified, west, name) == _SOME + 3


def test_what_comes_late_after_a_failover_is_refused(
    east: LocalCluster,
    unverified: LocalCluster,
    topic: TopicNamer,
    chance: random.Random,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A batch that a network held back would open a transaction that nobody ends, where others write by then."""
    name, held = topic("late"), list[tuple[Any, dict[str, Any]]]()
    topics.create_both(east, unverified, name)
    writer = TransactionalProducer(east, f"{name}-id")
    writer.send(name, topics.some(_SOME, chance))
    post, is_held = produce.post, asyncio.Event()

    async def posted(connection: Connection, appends: Any, **options: Any) -> Any:
        if not (is_held.is_set() and options["transactional_id"]):
            return await post(connection, appends, **options)
        held.append((appends, options | {"may_send": lambda: True}))
        raise Unreachable("it never answered", cluster="nowhere")

    monkeypatch.setattr(produce, "post", posted)

    async def scenario() -> None:
        async with Mirror(east, unverified).running(name, is_whole=True) as running:
            await running.until(copied(_SOME))
            is_held.set()
            await asyncio.to_thread(writer.send, name, topics.some(3, chance))
            await running.until(lambda _: bool(held))
            await running.engine.stop(drain_s=0.0)
        await let_go(unverified, name)
        (appends, options), *_ = held
        async with Client(unverified.cluster()) as client:
            leader = (await client.metadata([name])).topics[name].partitions[0].leader
            answers, _ = await post(await client.connection(leader), appends, **options)
        assert [each.error_code for each in answers.values()] == [codes.INVALID_PRODUCER_EPOCH]

    asyncio.run(scenario())
    servers = unverified.admin_bootstrap_servers
    assert oracle.ends(servers, name) == oracle.Ends(0, _SOME + 1, _SOME + 1)


def test_who_forgets_a_topic_ends_what_is_open_there(
    east: LocalCluster, unverified: LocalCluster, topic: TopicNamer, chance: random.Random
) -> None:
    """Nobody else would; what another link has there is left alone."""
    names = [topic("left"), topic("taken")]
    for name in names:
        copied_open(east, unverified, name, chance)
    link = Link(
        name=names[0],
        source=east.cluster(),
        target=unverified.cluster(),
        topics=TopicSettings(include=(TopicPattern.parse("nothing"),)),
    )

    async def scenario() -> tuple[Forgotten, ...]:
        async with Client(unverified.cluster()) as client:
            said = [
                TopicDocument(
                    link=owner,
                    source_topic=SourceTopic(name),
                    source_topic_id=uuid.uuid4(),
                    target_topic=TargetTopic(name),
                    target_topic_id=uuid.uuid4(),
                    state=LaneState.ACTIVE,
                )
                for owner, name in ((link.name, names[0]), (link.name, names[1]), ("another", names[1]))
            ]
            await append_once(client, said, replication_factor=1)
        return await forget(link, [], LedgerSettings())

    found = {each.topic: [one.held_records for one in each.aborted] for each in asyncio.run(scenario())}

    assert found == {names[0]: [_SOME], names[1]: []}
    servers = unverified.admin_bootstrap_servers
    assert oracle.ends(servers, names[0]) == oracle.Ends(0, _SOME + 1, _SOME + 1)
    assert oracle.ends(servers, names[1]) == oracle.Ends(0, 0, _SOME)


def test_what_a_leader_does_not_tell_is_not_taken_for_ended(
    guarded: LocalCluster, topic: TopicNamer, chance: random.Random
) -> None:
    """Whoever ends what is open, or looks whether it is committed, fails where it cannot be seen: a topic would be let
    go of in which consumers wait for ever.
    """
    name = topic("untold")
    topics.create(guarded, name)
    producer = topics.producer(guarded, transactional_id=name)
    producer.init_transactions(TERM_S)
    producer.begin_transaction()
    topics.send(producer, name, topics.some(_SOME, chance))
    topics.flush(producer)
    commit = PreparedCommit(1, (PreparedPart(TargetTopic(name), 0, 0, _SOME),))

    async def look() -> None:
        async with asyncio.timeout(TERM_S), Client(guarded.cluster()) as client:
            # A rule reaches the part of a broker that judges a moment after it is told.
            while True:
                await find_unfinished(client, [commit], [name])

    with denied(guarded, ResourceType.TOPIC, name, AclOperation.READ):
        with pytest.raises(NotAuthorized, match=name):
            asyncio.run(look())
        with pytest.raises(NotAuthorized, match=name):
            asyncio.run(let_go(guarded, name))
    assert oracle.ends(guarded.admin_bootstrap_servers, name).stable == 0
    deadline = time.monotonic() + TERM_S
    while oracle.ends(guarded.admin_bootstrap_servers, name).stable == 0:
        assert time.monotonic() < deadline
        with suppress(NotAuthorized):
            (aborted,) = asyncio.run(let_go(guarded, name))
            assert aborted.transactional_id == name


def test_a_lane_that_is_further_than_what_is_committed_asks_now_and_then(
    east: LocalCluster,
    unverified: LocalCluster,
    topic: TopicNamer,
    chance: random.Random,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It goes by records since, and the source's stable end lies in an older segment: the broker answers at once."""
    name = topic("further")
    topics.create(east, name, segment_bytes=1 << 20)
    topics.create(unverified, name)
    writer = TransactionalProducer(east, f"{name}-id")
    writer.send(name, topics.some(_SOME, chance))
    topics.produce(east, name, topics.some(30, chance, value_bytes=100_000))
    mirror = Mirror(east, unverified)
    mirror.copy(name, until=copied(_SOME + 30), is_whole=True)
    polls: list[float] = []
    poll = SourceReader._poll

    async def counted(reader: SourceReader, connection: Connection) -> int:
        polls.append(time.monotonic())
        return await poll(reader, connection)

    monkeypatch.setattr(SourceReader, "_poll", counted)

    async def scenario() -> None:
        async with mirror.running(name) as running:
            await running.until(all_are(LaneState.ACTIVE))
            begun = len(polls)
            await asyncio.sleep(2.0)
            assert len(polls) - begun < 20
            await asyncio.to_thread(writer.end, commit=True)
            await running.until(copied(_SOME + 31))

    asyncio.run(scenario())

    oracle.assert_same(east, unverified, name)
