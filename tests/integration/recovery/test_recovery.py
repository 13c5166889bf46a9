"""A follower that has diverged is brought back, and what only it had is set aside and can be replayed."""

from __future__ import annotations

import asyncio
import random
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from pyspark.sql import SparkSession

from isthmus.errors import GateNotMet, IsthmusError, PlanRefused
from isthmus.fabric.fabric import Fabric, open_fabric
from isthmus.kafka.batches.batch import Batch
from isthmus.kafka.client import Client
from isthmus.links.claiming import hold_claim
from isthmus.local import LocalCluster
from isthmus.local.ports import free_ports
from isthmus.memory import operators
from isthmus.memory.links import recollect
from isthmus.model.configsettings import ConfigSettings, KeptConfigs, PropertyPattern
from isthmus.model.configuration import Configuration
from isthmus.model.kafka.topic import TopicDescription
from isthmus.model.lane import LaneState
from isthmus.model.links.recovery import Recovery, RecoveryStage, quarantine_of
from isthmus.model.namespace import NamespaceMap
from isthmus.model.process.whereabouts import Liveness
from isthmus.model.selection import TopicPattern
from isthmus.recovery import quarantine, rebuilding, replaying
from isthmus.recovery.quarantine import Row, parcels
from isthmus.recovery.sides import find_topic
from testing.brokers.proxy import HOST
from testing.groups import consumers
from testing.groups.carrying import filled, records
from testing.links.controllers import Ending
from testing.patience import TERM_S
from testing.records import oracle, topics
from testing.records.trickle import trickling
from testing.runs.declaring import both as both
from testing.runs.declaring import name as name
from testing.runs.recovering import (
    FOREIGN,
    Interrupted,
    Stored,
    _are_at,
    caught_up,
    interrupted_at,
    link_between,
    log_of,
    lost,
    overtaken,
    told,
    topic_id,
    written,
)
from testing.runs.running import ends, patient, running
from testing.verbs import AsyncLinkOperations, LinkRecoverer, Promoter

pytestmark = pytest.mark.integration

Namer = Callable[[str], str]


def keeping_retention(configuration: Configuration) -> Configuration:
    """The same with a target that keeps its own retention."""
    (link,) = configuration.links
    kept = KeptConfigs(topics=TopicPattern.parse("*"), properties=(PropertyPattern.parse("retention.ms"),))
    return replace(configuration, links=(replace(link, configs=ConfigSettings(keep=(kept,))),))


def compact(east: LocalCluster, west: LocalCluster, name: str) -> None:
    """A topic is compacted on both sides from now on, and has a retention of its own at the target."""
    topics.configure(east, name, cleanup_policy="compact")
    topics.configure(west, name, cleanup_policy="compact", retention_ms=1 << 60)


def kind_of(record: Stored) -> bytes | None:
    """Why a record was set aside."""
    return dict(record.headers)["isthmus.kind"]


def ended_when_created(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command ends, once, when the topic is there again, before it is written down which one that is."""
    create = rebuilding.create

    async def created(*given: Any) -> Any:
        await create(*given)
        monkeypatch.undo()
        raise Interrupted("created")

    monkeypatch.setattr(rebuilding, "create", created)


def test_a_foreign_write_is_set_aside_and_the_topic_filled_anew(
    east: LocalCluster, west: LocalCluster, topic: Namer, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the link runs, and ended at any step: both logs are alike again, the foreign records are in quarantine, and
    groups stand where they stood, or at the last shared offset. Another topic of the link is not touched. Its records
    have no keys, and both sides are compacted by now: it is when it is filled, with the retention it keeps.
    """
    link, name, other = topic("link"), topic("orders"), topic("other")
    for each in (name, other):
        topics.create(east, each, partitions=2)
        topics.produce(east, each, records(20))
    topics.produce(east, name, records(7), partition=1)
    only = keeping_retention(link_between(east, west, link, name, other))
    recoverer = partial(LinkRecoverer, configuration=only, name=link, quiet_s=0.3)
    steps: list[str] = []
    ended_when_created(monkeypatch)

    async def scenario() -> Recovery:
        async with running(only, spark) as run:
            await run.until(lambda: _are_at(west, name, [20, 7]))
            await run.until(lambda: _are_at(west, other, [20, 0]))
            ids = [await topic_id(west, each) for each in (name, other)]
            await asyncio.to_thread(topics.produce, west, name, FOREIGN)
            positions = {"below": 7, "beyond": 22}
            offsets = {f"{link}.{group}": {(name, 0): offset} for group, offset in positions.items()}
            await asyncio.to_thread(consumers.commit, west, offsets)
            await asyncio.to_thread(topics.produce, east, name, records(5, begin=20))
            await run.until(lambda: run.state_of(name) is LaneState.FOREIGN_WRITE)
            await asyncio.to_thread(compact, east, west, name)
            told = await recoverer(on_step=steps.append).recover(dry_run=True)
            assert [p.shared for p in told.topics[0].partitions] == [20, 7]
            assert await topic_id(west, name) == ids[0]
            for step in range(30):
                steps.clear()
                try:
                    found = await recoverer(on_step=interrupted_at(step, steps)).recover()
                except Interrupted as ended:
                    if "putting groups back" in str(ended):
                        # A position that cannot be put back is not given up.
                        with (
                            consumers.joined(west, f"{link}.below", other),
                            pytest.raises(GateNotMet, match=f"could not be put back: {link}.below"),
                        ):
                            await recoverer().recover()
                    continue
                if found.topics:
                    break
            await run.until(lambda: _are_at(west, name, [25, 7]))
            assert await topic_id(west, name) != ids[0]
            assert await topic_id(west, other) == ids[1]
            await run.until(lambda: run.state_of(name) is LaneState.ACTIVE)
            await run.until(lambda: _is_settled(west, name))
            return found

    found = asyncio.run(scenario())
    (one,) = found.topics
    assert one.stage is RecoveryStage.DONE
    for partition in range(2):
        assert log_of(west, name, partition) == log_of(east, name, partition)
    stored = log_of(west, quarantine_of(name))
    assert one.quarantined == len(stored)
    # Behind them the link's own records may stand, at wrong offsets.
    assert {kind_of(each) for each in stored[len(FOREIGN) :]} <= {b"misplaced"}
    aside = stored[: len(FOREIGN)]
    assert [told(each) for each in aside] == [(each.key, each.value, each.timestamp) for each in FOREIGN]
    assert [dict(each.headers)["isthmus.offset"] for each in aside] == [b"20", b"21", b"22"]
    assert all(each.headers[0] == ("h", b"%d" % n) and kind_of(each) == b"diverged" for n, each in enumerate(aside))
    consumers.await_position(west, f"{link}.below", (name, 0), 7)
    consumers.await_position(west, f"{link}.beyond", (name, 0), 20)


async def _is_settled(cluster: LocalCluster, name: str) -> bool:
    own = await asyncio.to_thread(topics.own_configs, cluster, name)
    return (own["cleanup.policy"], own.get("retention.ms"), "retention.bytes" in own) == (
        "compact",
        str(1 << 60),
        False,
    )


async def taken_for_the_same(east: LocalCluster, west: LocalCluster, link: str) -> None:
    """Have a link take the source's topics for those that it has copied: they have lost records."""
    async with Client(west.cluster()) as client:
        known = await recollect(link, client)
    ids = {each: uuid.UUID(await topic_id(east, each.source_topic)) for each in known.topics.values()}
    await written(west, *(replace(each, source_topic_id=found) for each, found in ids.items()))


def test_it_goes_on_after_a_cluster_went_away(
    east: LocalCluster, west: LocalCluster, topic: Namer, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever cluster goes away at whichever step, the command ends soon and names it; given again once that is back,
    it does what is left: each record is set aside once, and both sides are alike.
    """
    link, names = topic("link"), {each: topic(f"{each}-away") for each in ("east", "west")}
    whole = link_between(east, west, link, *names.values())
    (port,) = free_ports(1)
    # Who gave the command before is a process that has ended.
    monkeypatch.setattr(operators, "liveness_of", lambda _: Liveness.DEAD)

    def tried(away: LocalCluster, at: int) -> tuple[list[str], IsthmusError | None]:
        """The steps of the command when the network of a cluster is gone from one on, and how it ended."""
        steps: list[str] = []

        def step(what: str) -> None:
            steps.append(what)
            if len(steps) == at:
                network.requests = 0

        shaky = replace(away.cluster(), addresses=((away.bootstrap_servers, f"{HOST}:{port}"),))
        source, target = (shaky if each.alias == shaky.alias else each for each in whole.clusters)
        only = replace(whole, links=(replace(whole.links[0], source=source, target=target),))
        # The ledger is at the target: where it is the source that goes, nothing is to end for its slowness.
        timeout_s = 10.0 if away is east else 3.0
        recoverer = LinkRecoverer(
            configuration=only, name=link, topics=[names[away.name]], quiet_s=0.3, timeout_s=timeout_s, on_step=step
        )
        with Ending(port, int(away.bootstrap_servers.rpartition(":")[2]), requests=1 << 30) as network:
            try:
                asyncio.run(recoverer.recover())
            except IsthmusError as error:
                return steps, error
        return steps, None

    for away in (east, west):
        lost(east, west, names[away.name])
        ended = set[str]()
        for at in range(1, 20):
            steps, error = tried(away, at)
            if error is None:
                break
            assert away.name in f"{error.message} {error.hint}", (steps, error)
            assert error.hint, (steps, error)
            ended.add(steps[-1])
        assert len(ended) == (4 if away is east else 8), ended

    asyncio.run(caught_up(whole, spark))
    for each in names.values():
        assert log_of(west, each) == log_of(east, each)
        aside = [told(record) for record in log_of(west, quarantine_of(each)) if kind_of(record) == b"diverged"]
        assert [value for _, value, _ in aside[:8]] == [b"%d" % n for n in range(12, 20)]


def in_single_records(rows: list[Row]) -> Iterator[Batch]:
    """The fourth of them is not written any more: who replays ends there."""
    for number, row in enumerate(rows):
        if number == 3:
            raise Interrupted
        yield from parcels([row])


def test_what_the_source_lost_or_deleted_is_kept(
    east: LocalCluster, west: LocalCluster, topic: Namer, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an unclean election, and after a gap: both sides are alike again, what only the target had is in quarantine
    and can be replayed into the source's topic, each record once, from where it is copied. Somebody else at work, at
    the target or at the same command, ends it, and a dry run changes nothing.
    """
    link, unclean, gap = topic("link"), topic("unclean"), topic("gap")
    lost(east, west, unclean)
    overtaken(east, west, gap)
    only = link_between(east, west, link, unclean, gap)
    recoverer = partial(LinkRecoverer, configuration=only, name=link, quiet_s=0.3)

    async def scenario() -> None:
        before = await topic_id(west, unclean)
        foreseen = await recoverer().recover(dry_run=True)
        assert {each.topic: each.stage for each in foreseen.topics} == dict.fromkeys((unclean, gap), "SETTING_ASIDE")
        assert await topic_id(west, unclean) == before
        async with Client(west.cluster()) as target, hold_claim(target, link, only.ledger):
            with pytest.raises(PlanRefused, match=f"recovers link {link} now"):
                await recoverer().recover()
        with (
            trickling(west, unclean, random.Random(1), enable_idempotence=True),
            pytest.raises(GateNotMet, match=rf"a producer writes to {unclean}-0 of west: producer \d+$"),
        ):
            await recoverer(topics=[unclean], quiet_s=5.0, timeout_s=5.0).recover()
        with monkeypatch.context() as patched:
            patched.setattr(quarantine, "parcels", in_single_records)
            with pytest.raises(Interrupted):
                await recoverer().recover()
        assert await topic_id(west, unclean) == before
        found = await recoverer().recover()
        assert {each.stage for each in found.topics} == {RecoveryStage.DONE}
        await caught_up(only, spark)

    asyncio.run(scenario())
    for each in (unclean, gap):
        assert log_of(west, each) == log_of(east, each)
    assert {kind_of(each) for each in log_of(west, quarantine_of(gap))} == {b"expired"}
    stored = log_of(west, quarantine_of(unclean))
    offsets = [(each.headers[-5], dict(each.headers)["isthmus.offset"]) for each in stored]
    assert len(set(offsets)) == len(offsets), "a record was set aside twice"
    aside = [told(each) for each in stored if kind_of(each) == b"diverged"]
    assert [value for _, value, _ in aside[:8]] == [b"%d" % n for n in range(12, 20)]

    with monkeypatch.context() as patched:
        patched.setattr(replaying, "parcels", in_single_records)
        with pytest.raises(Interrupted):
            asyncio.run(AsyncLinkOperations(only, link).replay(unclean))
    oracle.await_decided(east.admin_bootstrap_servers, unclean)
    (counted,) = asyncio.run(AsyncLinkOperations(only, link).replay(unclean, dry_run=True))
    assert (counted.written, counted.present) == (len(aside) - 3, 3)
    for _ in range(2):
        asyncio.run(AsyncLinkOperations(only, link).replay(unclean))
    assert [told(each) for each in log_of(east, unclean)[17:]] == aside
    asyncio.run(caught_up(only, spark))
    assert log_of(west, unclean) == log_of(east, unclean)
    what_the_source_lost_is_recovered_by_itself(east, west, topic("by-itself"), spark, monkeypatch)


def what_the_source_lost_is_recovered_by_itself(
    east: LocalCluster, west: LocalCluster, name: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link that says so brings topics back while it runs, one of which somebody had begun to bring back and left
    paused, sets aside what only the target has, and goes on.
    """
    found, begun = f"{name}-found", f"{name}-begun"
    only = link_between(east, west, name, found, begun)
    for each in (found, begun):
        topics.create(east, each)
        topics.produce(east, each, records(20))
    asyncio.run(caught_up(only, spark))
    for each in (found, begun):
        topics.delete(east, each)
        topics.create(east, each)
        topics.produce(east, each, [*records(12), *records(5, begin=100)])
    asyncio.run(taken_for_the_same(east, west, name))
    only = replace(only, links=(replace(only.links[0], on_divergence="recover"),))
    with monkeypatch.context() as patched:
        patched.setattr(quarantine, "parcels", in_single_records)
        with pytest.raises(Interrupted):
            asyncio.run(LinkRecoverer(configuration=only, name=name, topics=[begun], quiet_s=0.3).recover())

    async def are_at(end: int) -> bool:
        return [await ends(west, each) for each in (found, begun)] == [[end], [end]]

    async def scenario() -> None:
        async with running(only, spark) as run:
            await run.until(lambda: are_at(17))
            for each in (found, begun):
                await asyncio.to_thread(topics.produce, east, each, records(3, begin=200))
            await run.until(lambda: are_at(20))
            await run.until(lambda: {each.state for each in run.links[0].topics} == {LaneState.ACTIVE})

    asyncio.run(scenario())
    for each in (found, begun):
        assert log_of(west, each) == log_of(east, each)
        stored = [one for one in log_of(west, quarantine_of(each)) if kind_of(one) == b"diverged"]
        assert [value for _, value, _ in map(told, stored)] == [b"%d" % n for n in range(12, 20)]


def test_an_old_source_follows_the_new_one(
    both: Configuration, east: LocalCluster, west: LocalCluster, name: str, spark: SparkSession
) -> None:
    """After a failover the old source comes back with records that nobody has seen: a declared link has it follow, what
    it has beyond goes aside, and its groups wait until the topic is filled, unless somebody is in them.
    """
    orders, group = f"{name}.orders", f"{name}.app"
    filled(east, west, orders, 20)
    topics.produce(east, orders, FOREIGN)
    topics.produce(west, orders, records(10, begin=20))
    topics.configure(east, orders, max_message_bytes=1_234_567)
    consumers.commit(east, {group: {(orders, 0): 21}})
    Fabric(both).declarations.create(name, source="west", target="east", maps=[NamespaceMap.parse(f"{name}.:{name}.")])
    opened = open_fabric(both, declared=True).configuration
    only = replace(opened, links=tuple(link for link in opened.links if link.name == name))
    recoverer = LinkRecoverer(configuration=only, name=name, quiet_s=0.3)
    joined = consumers.joined(east, group, orders)
    with joined, pytest.raises(GateNotMet, match=f"consumers are at work at east: {group}"):
        asyncio.run(recoverer.recover())
    with pytest.raises(GateNotMet, match="waits to be filled") as waiting:
        asyncio.run(recoverer.recover())
    assert "isthmus run" in waiting.value.hint

    async def scenario() -> tuple[Recovery, TopicDescription | None]:
        async with running(only, spark) as run, Client(east.cluster()) as client:
            await run.until(lambda: _are_at(east, orders, [30]))
            return await recoverer.recover(), await find_topic(client, orders)

    found, there = asyncio.run(scenario())
    assert there is not None
    assert there.own_configs["max.message.bytes"] == "1234567"
    assert [each.after for each in found.topics[0].positions] == [20]
    assert log_of(east, orders) == log_of(west, orders)
    assert [told(each) for each in log_of(east, quarantine_of(orders))] == [
        (each.key, each.value, each.timestamp) for each in FOREIGN
    ]
    consumers.await_position(east, group, (orders, 0), 20)
    (held,) = asyncio.run(AsyncLinkOperations(only, name).quarantine())
    assert (held.records, held.offset_first, held.offset_last) == (3, 20, 22)
    assert asyncio.run(recoverer.recover()).topics == ()


@contextmanager
def recovering(both: Configuration, link: str) -> Iterator[None]:
    """Another operator recovers a link."""
    is_at_it, is_over = threading.Event(), threading.Event()

    async def hold() -> None:
        async with Client(both.cluster("west")) as target, hold_claim(target, link, both.ledger):
            is_at_it.set()
            await asyncio.to_thread(is_over.wait)

    with ThreadPoolExecutor(1) as other:
        holding = other.submit(asyncio.run, hold())
        try:
            assert is_at_it.wait(TERM_S)
            yield
        finally:
            is_over.set()
            holding.result()


def test_who_recovers_a_link_and_who_lets_go_of_it_see_each_other(
    both: Configuration, east: LocalCluster, west: LocalCluster, name: str
) -> None:
    """While somebody recovers a link no verb moves leader or follower, be it that he begins in the middle of one; and
    nobody recovers what was let go of since he looked.
    """
    filled(east, west, f"{name}.1", 10)
    each, links = NamespaceMap.parse(f"{name}."), Fabric(both).declarations
    links.create(name, source="east", target="west", maps=[each])
    quick = replace(both, timings=patient(calm_s=0.1))
    promoter, way_back = Promoter(configuration=quick, name=name, quiet_s=0.1), f"{name}-back"
    told = partial(pytest.raises, PlanRefused, match=f"recovers link {name} now")
    verbs = (promoter.promote, promoter.failover, promoter.detach, partial(promoter.reverse, way_back))
    with recovering(both, name):
        for verb in verbs:
            with told():
                asyncio.run(verb())
        with told():
            links.delete(name)
    with ExitStack() as stack:

        def heard(step: str) -> None:
            if step == "detaching":
                stack.enter_context(recovering(both, name))

        with told():
            asyncio.run(replace(promoter, on_step=heard).failover())
        assert links.describe(name).declaration.maps == (each,)
    assert Fabric(both).cluster("west").namespaces.describe(each.target).is_reserved

    looked = open_fabric(both, declared=True).configuration
    before = asyncio.run(topic_id(west, f"{name}.1"))
    assert asyncio.run(promoter.failover()).is_done
    topics.produce(west, f"{name}.1", FOREIGN)
    with pytest.raises(PlanRefused, match="attaches nothing any more"):
        asyncio.run(LinkRecoverer(configuration=looked, name=name, topics=[f"{name}.1"], quiet_s=0.1).recover())
    assert asyncio.run(topic_id(west, f"{name}.1")) == before
    assert len(log_of(west, f"{name}.1")) == 10 + len(FOREIGN)
