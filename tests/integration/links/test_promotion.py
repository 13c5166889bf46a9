"""A follower is promoted, or takes over without its source, and nothing is left that would write to it."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Coroutine
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any

import pytest
from confluent_kafka import KafkaException
from kafka.protocol.admin import DescribeClusterRequest
from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest
from kafka.protocol.metadata import ApiVersionsRequest, MetadataRequest
from pyspark.sql import SparkSession

from isthmus.errors import GateNotMet, IsthmusError, PlanRefused
from isthmus.fabric.fabric import Fabric, open_fabric
from isthmus.kafka.client import Client
from isthmus.ledger.documents.kinds import ProgressDocument, ProvenanceDocument
from isthmus.ledger.link import read_documents
from isthmus.links.cutover import promote_together
from isthmus.local import LocalCluster
from isthmus.local.ports import free_ports
from isthmus.memory.leaving import with_transactional_ids
from isthmus.memory.links import HEARING_S, LinkMemory, names_of_transactions, recollect
from isthmus.model.cluster import Cluster
from isthmus.model.configuration import Configuration, LedgerSettings
from isthmus.model.kafka.transactions import TransactionState
from isthmus.model.lane import LaneState
from isthmus.model.links.promotion import LeftPartition, Promotion
from isthmus.model.links.writability import NamespaceState
from isthmus.model.namespace import Namespace, NamespaceMap
from isthmus.model.naming import LEDGER_TOPIC
from isthmus.run.following import Following
from isthmus.topics.creation import FILLING
from testing.brokers.hanging import leave_hanging, trusting
from testing.brokers.hidden import Recorder
from testing.brokers.proxy import HOST, Proxy
from testing.groups import consumers
from testing.groups.carrying import records
from testing.links.interrupting import finished
from testing.links.promoting import VERBS, are_reserved, created, ends_at, opened, written
from testing.patience import TERM_S
from testing.records import oracle, topics
from testing.records.transactions import TransactionalProducer, abort_large, copied
from testing.records.trickle import trickling
from testing.runs.declaring import both as both
from testing.runs.declaring import cut, remembers
from testing.runs.declaring import name as name
from testing.runs.mirror import Mirror, reached
from testing.runs.recovering import Interrupted, log_of
from testing.runs.recovering import written as ledger_written
from testing.runs.running import ends, patient, running
from testing.verbs import AsyncNamespaces, Promoter, pause, provenance_of

pytestmark = pytest.mark.integration

READING = (ApiVersionsRequest, DescribeClusterRequest, FetchRequest, ListOffsetsRequest, MetadataRequest)
"""The requests by which a ledger is found and read."""


async def provenance(cluster: Cluster, name: str) -> list[ProvenanceDocument]:
    """What is remembered of where a link's topics came from."""
    async with Client(cluster) as client:
        documents = (await read_documents(client)).values()
    return ProvenanceDocument.find_all(documents, name)


async def _is_at(cluster: LocalCluster, topic: str, end: int) -> bool:
    return await ends(cluster, topic) == [end]


def test_a_follower_is_promoted(
    both: Configuration,
    east: LocalCluster,
    west: LocalCluster,
    name: str,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not while somebody writes to the source, or a group is not carried; then at the same offsets and positions,
    interrupted at any step. That a controller which lives has let go is known by its word, not by its silence.
    """
    timings = patient(follow_s=0.2)
    both = replace(both, timings=patient(calm_s=TERM_S))
    only, each = created(both, east, name)
    promoter = partial(Promoter, configuration=both, name=name, quiet_s=1.0)

    async def is_at(topic: str, end: int) -> bool:
        return await ends(west, topic) == [end]

    async def scenario() -> None:
        async with running(only, spark, following=Following(written=only.written), timings=timings) as run:
            await run.until(lambda: is_at(f"{name}.x-1", 20))
            with trickling(east, f"{name}.a-1", random.Random(1), enable_idempotence=True):
                with pytest.raises(GateNotMet, match=rf"{name}.a-1-0|has not copied|came to the source after"):
                    await promoter(quiet_s=60.0, timeout_s=3.0).promote()
                # How much may stay behind changes nothing of that.
                with pytest.raises(GateNotMet, match=rf"a producer writes to {name}.a-1-0 of east: producer \d+$"):
                    await promoter(quiet_s=60.0, timeout_s=1.5, max_lag=1 << 40).promote()
            attached = Fabric(both).declarations.describe(name).declaration.maps
            assert each in attached, "it was detached though its promise was not kept"
            # A part is examined with the groups that read it, whether they are named as well or not.
            assert (await promoter(maps=(each,)).promote(dry_run=True)).groups.keys() == {f"{name}.app"}
            # A group that stands where no record is yet cannot be carried there.
            stand = partial(consumers.commit, east)
            await asyncio.to_thread(stand, {f"{name}.app": {(f"{name}.a-1", 0): 1 << 40}})
            with pytest.raises(GateNotMet, match=f"not carried all consumer groups: {name}.app is CATCHING_UP"):
                await promoter(maps=(each,), timeout_s=2.0).promote()
            await asyncio.to_thread(stand, {f"{name}.app": {(f"{name}.a-1", 0): 7}})
            through: list[tuple[int, int]] = []
            onwards = partial(promoter, on_progress=lambda *told: through.append(told))
            done, _ = await finished(lambda ending: onwards(on_step=ending).promote(), monkeypatch)
            assert done.is_done
            assert (1, 1) in through
            (end,) = await ends(east, f"{name}.a-1")
            assert await asyncio.to_thread(written, west, f"{name}.x-1") == end
            (left,) = await provenance(both.cluster("west"), name)
            assert (left.offset_begin, left.offset_end, left.missing_records, left.verb) == (0, end, 0, "promote")
            # What the source gets now stays there, and doing it all again changes nothing.
            await asyncio.to_thread(topics.produce, east, f"{name}.a-1", records(5))
            again = await promoter().promote()
            assert again.is_done
            assert await is_at(f"{name}.x-1", end + 1)
            assert not run.task.done()

    asyncio.run(scenario())
    consumers.await_position(west, f"{name}.app", (f"{name}.x-1", 0), 7)
    assert not Fabric(both).cluster("west").namespaces.describe(each.target).is_reserved


def test_a_follower_takes_over_without_its_source(
    both: Configuration,
    east: LocalCluster,
    west: LocalCluster,
    name: str,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What may be missing is told as far as the source was heard, and nothing is asked of it or written to it; whoever
    is interrupted at any step of that, of a detachment or of attaching again gives the command once more.
    """
    only, each = created(both, east, name)

    async def scenario() -> None:
        async with running(only, spark, until_caught_up=True) as run:
            await run.task
        leaving = Promoter(configuration=both, name=name)
        detached, _ = await finished(lambda ending: replace(leaving, on_step=ending).detach(), monkeypatch)
        assert detached.is_done
        declarations = Fabric(both).declarations
        assert declarations.describe(name).declaration.maps == ()
        assert Fabric(both).cluster("west").namespaces.describe(each.target).is_reserved
        attached, _ = await finished(lambda _: asyncio.to_thread(declarations.reattach, name), monkeypatch)
        assert each in attached.declaration.maps
        assert attached.behind == ()

        await asyncio.to_thread(topics.produce, east, f"{name}.a-1", records(3))
        promoter = Promoter(configuration=cut(both, "east"), name=name)
        # The lane was killed before it told of all that it wrote.
        async with Client(west.cluster()) as client:
            told = (await recollect(name, client)).documents.values()
        progress = [one for one in ProgressDocument.find_all(told) if one.reports]
        stale = [replace(one, reports=tuple(replace(each, position=12) for each in one.reports)) for one in progress]
        assert stale
        await ledger_written(west, *stale)
        foreseen = await promoter.failover(dry_run=True)
        assert not foreseen.is_done
        assert foreseen.missing_s is not None
        assert [(one.target_end, one.missing_records) for one in foreseen.partitions] == [(20, 0)]
        # What somebody else writes there, which no lane notices, is no copy of what the source has.
        await asyncio.to_thread(topics.produce, west, f"{name}.x-1", records(2))
        seen = await replace(promoter, configuration=both).failover(dry_run=True)
        assert [(one.target_end, one.source_end, one.missing_records) for one in seen.partitions] == [(22, 23, 11)]
        assert seen.answering == "east"
        found, _ = await finished(lambda ending: replace(promoter, on_step=ending).failover(), monkeypatch)
        assert found.is_done
        assert await asyncio.to_thread(written, west, f"{name}.x-1") == 22
        left = [one for one in await provenance(both.cluster("west"), name) if one.verb == "failover"]
        assert [(one.offset_end, one.missing_records) for one in left] == [(12, 8)]

    asyncio.run(scenario())
    assert not Fabric(both).cluster("west").namespaces.describe(each.target).is_reserved
    # The source knows nothing of it yet.
    assert Fabric(both).declarations.describe(name).behind == ("east",)


def test_a_failover_that_cuts_through_a_transaction_says_so(
    both: Configuration, east: LocalCluster, west: LocalCluster, name: str, spark: SparkSession, chance: random.Random
) -> None:
    """While a large transaction is copied, the target takes over: the partition and the transaction are named, although
    only the lost source knows the transactional id. A partition that holds all of its transaction is not named. A topic
    that is still configured for being filled gets the policy of its source, not when it is detached and may be filled
    on.
    """
    each = NamespaceMap.parse(f"{name}.a-:{name}.x-")
    large, small = f"{name}.x-1", f"{name}.x-2"
    for number, size in ((1, 4000), (2, 3)):
        topics.create(east, f"{name}.a-{number}")
        writing = consumers.transactional(east, f"{name}.pay-{number}")
        writing.begin_transaction()
        for _ in range(size):
            writing.produce(f"{name}.a-{number}", chance.randbytes(1000))
            writing.poll(0)
        writing.commit_transaction(TERM_S)
    # A compacted one takes no records without keys.
    topics.configure(east, f"{name}.a-1", cleanup_policy="compact")
    settings = {"limits.bytes_per_s": 100_000}
    Fabric(both).declarations.create(name, source="east", target="west", maps=[each], settings=settings)
    opened = open_fabric(both, declared=True).configuration
    only = replace(opened, links=tuple(link for link in opened.links if link.name == name))

    async def scenario() -> tuple[Promotion, Promotion]:
        async def is_under_way() -> bool:
            (at_large,), (at_small,) = await ends(west, large), await ends(west, small)
            async with Client(west.cluster()) as client:
                known = names_of_transactions(name, (await recollect(name, client)).documents)
            return at_large > 100 and at_small == 4 and bool(known)

        async with running(only, spark) as run:
            await run.until(is_under_way)
            leaving = Promoter(configuration=cut(both, "east"), name=name)
            detached = await leaving.detach()
            (note,) = detached.notes
            assert note.message.endswith(f"still being filled, so without their retention and policy: {large}")
            assert (await asyncio.to_thread(topics.own_configs, west, large)).items() >= FILLING.items()
            found = await replace(leaving, maps=(each,)).failover()
            assert found.notes == ()
            here, there = (topics.own_configs(each, topic) for each, topic in ((west, large), (east, f"{name}.a-1")))
            assert {key: here.get(key) for key in FILLING} == {key: there.get(key) for key in FILLING}
        for one in await provenance(both.cluster("west"), name):
            (left,) = [each for each in found.partitions if each.topic == one.topic]
            assert one.ends_within == left.ends_within
        return detached, found

    detached, found = asyncio.run(scenario())
    torn, whole = found.partitions
    assert 100 < torn.target_end < 4000
    assert (torn.topic, whole.topic, whole.ends_within) == (large, small, ())
    assert torn.ends_within is not None
    assert torn.ends_within == detached.partitions[0].ends_within, "its lane had let go before it told where it ends"
    (transaction,) = torn.ends_within
    # The link noted it while the source was there.
    assert transaction.transactional_id == f"{name}.pay-1"
    assert f"the end of a committed transaction is missing in {large}-0 ({name}.pay-1)" in found.missing_in_words
    nameless = (replace(torn, ends_within=(transaction._replace(transactional_id=""),)),)

    async def with_ids(*, asks: bool) -> tuple[LeftPartition, ...]:
        async with Client(only.links[0].source) as source:
            return await with_transactional_ids(source, LinkMemory(name), nameless, asks=asks)

    for asks, told in ((False, ""), (True, f"{name}.pay-1")):
        (named,) = asyncio.run(with_ids(asks=asks))
        assert named.ends_within == (transaction._replace(transactional_id=told),)


def test_failover_leaves_a_source_alone_that_can_be_reached(
    both: Configuration, east: LocalCluster, west: LocalCluster, name: str
) -> None:
    """It asks for nothing there but for what is declared, and writes nothing."""
    (port,) = free_ports(1)
    upstream = int(east.bootstrap_servers.rpartition(":")[2])
    way = replace(both.cluster("east"), addresses=((east.bootstrap_servers, f"{HOST}:{port}"),))
    seen = replace(both, clusters=(way, both.cluster("west")))
    created(both, east, name)
    topics.create(west, f"{name}.x-1")
    before = oracle.ends(east.bootstrap_servers, LEDGER_TOPIC)
    with Recorder(port, upstream) as recorder:
        assert asyncio.run(Promoter(configuration=seen, name=name).failover()).is_done
    assert recorder.api_keys
    assert recorder.api_keys <= {each.API_KEY for each in READING}, "it did more than read the ledger"
    assert oracle.ends(east.bootstrap_servers, LEDGER_TOPIC) == before
    assert not Fabric(both).cluster("west").namespaces.describe(Namespace.of(f"{name}.x-")).is_reserved


def test_a_topic_that_was_refused_is_told_as_missing(
    both: Configuration, east: LocalCluster, west: LocalCluster, name: str, spark: SparkSession
) -> None:
    """All of it, as far as the source was seen to hold any: a failover passes over no topic that it should have had. Of
    one that is paused no more is said to have been heard than was, though its lease goes on with others.
    """
    only, _ = created(both, east, name)
    topics.create(east, f"{name}.a-2")
    topics.produce(east, f"{name}.a-2", records(50))
    topics.create(east, f"{name}.a-3")
    # Kafka refuses a name that differs from another one by a dot for an underscore only.
    topics.create(west, f"{name.replace('.', '_')}_x-2")

    async def scenario() -> None:
        async with running(only, spark) as run:
            await run.until(lambda: _is_at(west, f"{name}.x-1", 20))
            await run.until(lambda: remembers(both, "west", "east", name))
            await run.until(lambda: run.state_of(f"{name}.x-3") is LaneState.ACTIVE)
            (link,) = only.links
            await pause(link, topic=f"{name}.x-1")
            await run.until_resting(link, f"{name}.x-1")
            resting_at = time.monotonic()
            await asyncio.to_thread(topics.produce, east, f"{name}.a-1", records(7))
            while time.monotonic() < resting_at + 2 * HEARING_S:
                # The lease that had it tells of the other topic meanwhile.
                await asyncio.to_thread(topics.produce, east, f"{name}.a-3", records(1))
                await asyncio.sleep(0.5)
            paused_s = time.monotonic() - resting_at
            foreseen = await Promoter(configuration=cut(both, "east"), name=name).failover(dry_run=True)
            (one,) = [each for each in foreseen.partitions if each.topic == f"{name}.x-1"]
            assert one.source_age_s is not None
            assert one.missing_records >= 7 or one.source_age_s >= paused_s
        answered = await Promoter(configuration=both, name=name).failover(dry_run=True)
        assert (answered.answering, answered.partitions[0].missing_records) == ("east", 7)
        assert "east answers: promote or reverse" in answered.missing_in_words
        promoter = Promoter(configuration=cut(both, "east"), name=name)
        found = await promoter.failover()
        assert [(one.topic, one.partition) for one in found.partitions] == [
            (f"{name}.x-{number}", 0) for number in (1, 2, 3)
        ]
        assert (found.partitions[1].missing_records, found.unknown) == (50, "")

    asyncio.run(scenario())


def test_a_partition_that_has_ended_is_no_proof(
    both: Configuration, east: LocalCluster, west: LocalCluster, name: str, spark: SparkSession
) -> None:
    """Though both logs end alike: it is named instead of promoted or reversed, and what a failover leaves behind is
    counted from where its lane came to. What others wrote behind that is not told to have come from the source.
    """
    only, each = created(both, east, name)
    promoter = Promoter(configuration=both, name=name, quiet_s=0.5)

    async def has_ended() -> bool:
        found = await promoter.failover(dry_run=True)
        return [(one.state, one.missing_records) for one in found.partitions] == [(LaneState.FOREIGN_WRITE, 5)]

    async def scenario() -> None:
        async with running(only, spark) as run:
            await run.until(lambda: _is_at(west, f"{name}.x-1", 20))
            await asyncio.to_thread(topics.produce, west, f"{name}.x-1", records(5))
            await asyncio.to_thread(topics.produce, east, f"{name}.a-1", records(5))
            await run.until(has_ended)
            for verb in (promoter.promote(), promoter.reverse(f"{name}-back")):
                with pytest.raises(GateNotMet, match=f"{name}.x-1-0 is FOREIGN_WRITE") as told:
                    await verb
                assert f"isthmus link recover {name}" in told.value.hint

    asyncio.run(scenario())
    assert each in Fabric(both).declarations.describe(name).declaration.maps
    with pytest.raises(Interrupted):
        asyncio.run(replace(promoter, on_step=ends_at("releasing")).failover())
    assert asyncio.run(promoter.failover()).is_done
    (left,) = asyncio.run(provenance(both.cluster("west"), name))
    assert (left.offset_begin, left.offset_end, left.verb) == (0, 20, "failover")


def test_equal_ends_are_no_copy_where_nothing_was_ever_run(
    both: Configuration, east: LocalCluster, west: LocalCluster, name: str
) -> None:
    """What stands at the end of the follower has to be what the leader has there; else the link has to be run first."""
    created(both, east, name)
    topics.create(west, f"{name}.x-1")
    topics.produce(west, f"{name}.x-1", records(19))
    topics.produce(west, f"{name}.x-1", [records(1)[0]._replace(value=b"of others")])
    promoter = partial(Promoter, configuration=both, name=name, quiet_s=0.1)
    with pytest.raises(GateNotMet, match=f"has not copied {name}.x-1-0 to the end"):
        asyncio.run(promoter(timeout_s=1.0).promote(dry_run=True))
    for cluster, topic in ((east, f"{name}.a-1"), (west, f"{name}.x-1")):
        topics.produce(cluster, topic, records(1))
    (left,) = asyncio.run(promoter().promote(dry_run=True)).partitions
    assert (left.missing_records, left.copied_end) == (0, 21)


def test_leader_and_follower_change_places(
    both: Configuration,
    east: LocalCluster,
    west: LocalCluster,
    name: str,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not while a consumer is at work at the source; then, interrupted at any step, what is produced at the old target
    arrives at the old source, at the same offsets, and both clusters tell where everything came from.
    """
    timings = patient(follow_s=0.2)
    both = replace(both, timings=patient(calm_s=1.0))
    only, _ = created(both, east, name)
    back = f"{name}-back"
    promoter = Promoter(configuration=both, name=name, quiet_s=0.5)

    async def scenario() -> None:
        async with running(only, spark, following=Following(written=only.written), timings=timings) as run:
            await run.until(lambda: _is_at(west, f"{name}.x-1", 20))
            joined = consumers.joined(east, f"{name}.app", f"{name}.a-1")
            with joined, pytest.raises(GateNotMet, match=f"at work at east: {name}.app"):
                await promoter.reverse(back)
            found, _ = await finished(lambda ending: replace(promoter, on_step=ending).reverse(back), monkeypatch)
            assert found.is_done
            await promoter.reverse(back)
            assert await asyncio.to_thread(written, west, f"{name}.x-1") == 20
            await run.until(lambda: _is_at(east, f"{name}.a-1", 21))
            there = await provenance_of(both, f"{name}.x-1")
            assert not there.away
            told = [(each.cluster, each.offset_end, each.source_cluster) for each in there.origins]
            assert told == [("west", 20, "east")]
            (here,) = (await provenance_of(both, f"{name}.a-1")).origins
            assert (here.cluster, here.source_cluster, here.link, here.verb) == ("east", "west", back, "follows")

    asyncio.run(scenario())
    Fabric(both).declarations.delete(back)


async def outcome(verb: Coroutine[Any, Any, Promotion]) -> Promotion | IsthmusError:
    """What comes of a verb."""
    try:
        return await verb
    except IsthmusError as error:
        return error


@pytest.mark.parametrize("away", ["east", "west"])
def test_a_cluster_that_goes_away_in_the_middle_of_a_verb(
    both: Configuration, east: LocalCluster, west: LocalCluster, name: str, away: str
) -> None:
    """At whichever step it goes, the verb ends with an error that names it, or does without it; the same command goes
    on when it is back, and comes to the end.
    """
    upstream = int({"east": east, "west": west}[away].bootstrap_servers.rpartition(":")[2])
    (port,) = free_ports(1)
    own = both.cluster(away)
    way = replace(own, addresses=((own.bootstrap_servers[0], f"{HOST}:{port}"),))
    shaky = replace(both, clusters=tuple(way if each.alias == away else each for each in both.clusters))
    shaky = replace(shaky, timings=patient(calm_s=0.1))
    links, each = Fabric(both).declarations, NamespaceMap.parse(f"{name}.a-:{name}.x-")
    links.create(name, source="east", target="west", maps=[each])
    for verb, call in VERBS.items():
        links.reattach(name)
        lost: list[str] = []
        for step in count():
            steps: list[str] = []
            with ExitStack() as there:
                there.enter_context(Proxy(port, upstream))

                def heard(what: str, steps: list[str] = steps, there: ExitStack = there, step: int = step) -> None:
                    steps.append(what)
                    if len(steps) == step + 1:
                        there.close()

                promoter = Promoter(configuration=shaky, name=name, quiet_s=0.1, timeout_s=5.0, on_step=heard)
                found = asyncio.run(outcome(call(promoter)))
            if isinstance(found, Promotion):
                assert found.is_done, (verb, steps)
                break
            assert away in f"{found.message} {found.hint}", (verb, steps)
            assert found.hint, (verb, steps)
            lost.append(steps[-1])
        # Without the target nothing can be done; of the source these two ask what it has.
        assert bool(lost) is (away == "west" or verb in ("promote", "reverse")), (verb, lost)
    namespaces = Fabric(both).cluster("west").namespaces
    assert not namespaces.describe(each.target).is_reserved
    assert links.describe(f"{name}-back").declaration.maps == (each.reversed,)
    links.delete(f"{name}-back")


def test_a_repeated_verb_goes_on_with_its_own(both: Configuration, name: str) -> None:
    """What was detached before stays reserved when a failover is given twice, and another verb asks what is meant."""
    both = replace(both, timings=patient(calm_s=0.1))
    links, first, second = Fabric(both).declarations, *two_maps(name)
    links.create(name, source="east", target="west", maps=[first, second])
    promoter = partial(Promoter, configuration=both, name=name, quiet_s=0.1)
    asyncio.run(promoter(maps=(second,)).detach())
    # It ends before the release, and then it is given again twice.
    with pytest.raises(Interrupted):
        asyncio.run(promoter(on_step=ends_at("releasing")).failover())
    with pytest.raises(PlanRefused, match="it was no promote that detached") as told:
        asyncio.run(promoter().promote())
    assert f"--map {first} --map {second}" in told.value.hint
    for _ in range(2):
        found = asyncio.run(promoter().failover())
        assert (found.is_done, found.namespaces) == (True, (first,))
        assert are_reserved(both, first, second) == [False, True]
    assert asyncio.run(promoter(maps=(second,)).failover()).is_done
    assert are_reserved(both, second) == [False]


def test_a_repeated_reversal_turns_what_it_began_with(both: Configuration, name: str) -> None:
    """Interrupted before the way back was made, or between the release of groups and of topics, it comes back with all
    that followed and nothing that was detached before; done to the end, it is done, whatever the way back is by then.
    """
    both = replace(both, timings=patient(calm_s=0.1))
    links, (first, second), back = Fabric(both).declarations, two_maps(name), f"{name}-back"
    groups = NamespaceMap.parse(f"{name}.", "group")
    links.create(name, source="east", target="west", maps=[first, second, groups])
    promoter = partial(Promoter, configuration=both, name=name, quiet_s=0.1)
    asyncio.run(promoter(maps=(second,)).detach())
    with pytest.raises(Interrupted):
        asyncio.run(promoter(on_step=ends_at("releasing")).reverse(back))
    Fabric(both).cluster("west").namespaces.update(groups.target, reserved=False)
    with pytest.raises(Interrupted):
        asyncio.run(promoter(on_step=ends_at("creating")).reverse(back))
    for _ in range(2):
        assert asyncio.run(promoter().reverse(back)).is_done
        assert set(links.describe(back).declaration.maps) == {first.reversed, groups.reversed}
        assert are_reserved(both, first, second) == [False, True]
        links.update(back, settings={"limits.bytes_per_s": "1GiB"})
    links.delete(back)
    assert asyncio.run(promoter().reverse(back)).is_done
    with pytest.raises(PlanRefused, match="attaches nothing that could be reversed"):
        asyncio.run(promoter(name=back).reverse(f"{name}-again"))


def two_maps(name: str) -> tuple[NamespaceMap, NamespaceMap]:
    """Of two namespaces of topics that hold none."""
    return NamespaceMap.parse(f"{name}.a-:{name}.x-"), NamespaceMap.parse(f"{name}.b-:{name}.y-")


def test_an_open_transaction_is_in_the_way(
    both: Configuration, east: LocalCluster, name: str, spark: SparkSession
) -> None:
    """Its records could be committed after the promotion: it is named, and nothing is changed. Of two links that are
    promoted as one none is either while one lags, until so much lag is let pass; then it can be taken back.
    """
    only, _ = created(both, east, name)

    async def scenario() -> None:
        async with running(only, spark, until_caught_up=True) as run:
            await run.task
        producer = await asyncio.to_thread(consumers.transactional, east, name)
        producer.begin_transaction()
        producer.produce(f"{name}.a-1", b"undecided")
        await asyncio.to_thread(producer.flush, TERM_S)
        promoter = Promoter(configuration=both, name=name, quiet_s=0.5, timeout_s=2.0)
        with pytest.raises(GateNotMet, match=f"a transaction is open in {name}.a-1-0 of east: {name}$"):
            await promoter.promote()
        leader, space = AsyncNamespaces(east.cluster(), LedgerSettings()), Namespace.of(f"{name}.a-")
        await leader.update(space, reserved=True)
        with pytest.raises(GateNotMet, match=f"is RESERVING: a transaction of {name} is open in {name}.a-1-0"):
            await promoter.reverse(f"{name}-back")
        await asyncio.to_thread(producer.abort_transaction, TERM_S)
        await leader.update(space, reserved=False)

    asyncio.run(scenario())
    assert Fabric(both).declarations.describe(name).declaration.maps
    of_two_links_all_or_none(both, east, name)
    # Nobody has written to the followers, so it can be taken back.
    Fabric(both).declarations.reattach(name)
    assert open_fabric(both, spark=spark, declared=True).run(until="caught-up", link=name).is_caught_up


def of_two_links_all_or_none(both: Configuration, east: LocalCluster, name: str) -> None:
    """One that lags holds the other up too; then what it lacks may stay behind, which is more than a little."""
    other, links = f"{name}-other", Fabric(both).declarations
    links.create(other, source="east", target="west", maps=[NamespaceMap.parse(f"{name}.o-:{name}.p-")])
    topics.produce(east, f"{name}.a-1", records(3))
    promoter = partial(Promoter, configuration=both, quiet_s=0.5)

    def together(max_lag: int, timeout_s: float) -> list[Promotion | IsthmusError]:
        each = [promoter(name=one, max_lag=max_lag, timeout_s=timeout_s) for one in (name, other)]
        found = asyncio.run(promote_together(each))
        assert list(found) == [name, other]
        return list(found.values())

    lags, waits = together(4, 2.0)
    assert isinstance(lags, GateNotMet)
    assert "has not copied" in lags.message
    assert isinstance(waits, GateNotMet)
    assert f"was left as it is: {name} cannot be promoted" in waits.message
    assert all(links.describe(one).declaration.maps for one in (name, other))
    # The aborted record and its marker count as well.
    promoted = together(5, 60.0)
    assert [(one.is_done, one.missing_records) for one in promoted if isinstance(one, Promotion)] == [
        (True, 5),
        (True, 0),
    ]
    links.delete(other)


def test_what_is_open_is_aborted_when_a_reservation_is_lifted(
    both: Configuration, east: LocalCluster, west: LocalCluster, name: str
) -> None:
    """By failover, by update and by deletion: also what no coordinator knows. Its producer is fenced, and readers pass
    it.
    """
    created(both, east, name)
    topic = f"{name}.x-1"
    topics.create(west, topic)
    leave_hanging(west, topic, 3)
    producer = opened(west, topic, name)
    found = asyncio.run(Promoter(configuration=cut(both, "east"), name=name).failover())
    assert {(each.state, each.owner) for each in found.aborted} == {
        (TransactionState.OPEN, name),
        (TransactionState.HANGING, topic),
    }
    with pytest.raises(KafkaException):
        producer.commit_transaction(20)
    end = written(west, topic)

    namespaces, namespace = Fabric(both).cluster("west").namespaces, Namespace.of(f"{name}.x-")
    namespaces.update(namespace, reserved=True)
    producer = opened(west, topic, f"{name}-again")
    written_to = namespaces.describe(namespace)
    assert written_to.state is NamespaceState.RESERVING
    assert written_to.waits_for == (f"a transaction of {name}-again is open in {topic}-0",)
    released = namespaces.update(namespace, reserved=False)
    assert [each.owner for each in released.aborted] == [f"{name}-again"]
    assert released.state is NamespaceState.WRITABLE
    assert namespaces.update(namespace, reserved=False).aborted == ()
    with pytest.raises(KafkaException):
        producer.commit_transaction(20)
    namespaces.update(namespace, reserved=True)
    producer = opened(west, topic, f"{name}-last")
    assert namespaces.delete(namespace, dry_run=True).aborted == ()
    assert [each.owner for each in namespaces.delete(namespace).aborted] == [f"{name}-last"]
    with pytest.raises(KafkaException):
        producer.commit_transaction(20)
    last = written(west, topic)
    (seen,) = oracle.records(west.admin_bootstrap_servers, topic)
    assert [(each.offset, each.value) for each in seen] == [(end, b"mine"), (last, b"mine")]


def test_what_is_open_at_the_source_or_half_copied_ends_with_failover(
    both: Configuration, east: LocalCluster, west: LocalCluster, name: str, chance: random.Random
) -> None:
    """Of an aborted transaction of which a link has copied a part no record is ever seen, and nobody waits for its end;
    nothing is copied of one that is open at the source. A detachment leaves it open, and says so.
    """
    topic, each = f"{name}.a-1", NamespaceMap.parse(f"{name}.a-")
    Fabric(both).declarations.create(name, source="east", target="west", maps=[each])
    topics.create_both(east, west, topic)
    topics.produce(east, topic, records(2))
    abort_large(east, topic, chance)
    pending = opened(east, topic, f"{name}-pending")
    topics.produce(east, topic, records(5))
    with trusting(west):
        (copied,) = Mirror(east, west).copy(topic, until=reached(50)).values()
    stable = oracle.ends(east.bootstrap_servers, topic).stable
    assert copied.position < stable < oracle.ends(east.bootstrap_servers, topic).high
    before = oracle.ends(west.bootstrap_servers, topic)
    assert before.stable == 2 < before.high
    detached = asyncio.run(Promoter(configuration=both, name=name).detach())
    assert [f"stays open in {topic}-0" in note.message for note in detached.notes] == [True]
    Fabric(both).declarations.reattach(name)
    assert oracle.ends(west.bootstrap_servers, topic) == before
    failing_over = Promoter(configuration=cut(both, "east"), name=name)
    for found in (asyncio.run(failing_over.failover(dry_run=True)), asyncio.run(failing_over.failover())):
        assert [(one.state, one.first_offset) for one in found.aborted] == [(TransactionState.MIRRORED, 2)]
    after = oracle.ends(west.bootstrap_servers, topic)
    assert before.high < after.stable == after.high <= stable
    assert written(west, topic) == after.high
    assert [one.value for one in log_of(west, topic)] == [b"0", b"1", b"mine"]
    pending.abort_transaction(TERM_S)


def test_what_is_open_at_the_target_is_not_there_yet(
    both: Configuration, east: LocalCluster, west: LocalCluster, name: str, chance: random.Random
) -> None:
    """A transaction that the source has committed, and of which the copy lacks nothing but the end, is more than one
    record that stays behind: whoever lets that much pass has all of it aborted, and counted.
    """
    topic, each = f"{name}.a-1", NamespaceMap.parse(f"{name}.a-")
    Fabric(both).declarations.create(name, source="east", target="west", maps=[each])
    topics.create_both(east, west, topic)
    writer = TransactionalProducer(east, f"{name}-id")
    writer.send(topic, topics.some(10, chance))
    with trusting(west):
        Mirror(east, west).copy(topic, until=copied(10), is_whole=True)
    writer.end(commit=True)
    promoter = Promoter(configuration=both, name=name, quiet_s=0.3, timeout_s=1.0, max_lag=1)
    with pytest.raises(GateNotMet, match=f"has not copied {topic}-0 to the end"):
        asyncio.run(promoter.promote())
    found = asyncio.run(replace(promoter, timeout_s=60.0, max_lag=11).promote())
    assert (found.is_done, found.missing_records, len(found.aborted)) == (True, 11, 1)
    assert log_of(west, topic) == []
