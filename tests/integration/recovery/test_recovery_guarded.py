"""What changes while a topic is recovered: nothing is deleted that is not, by then, to be found elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from isthmus.errors import GateNotMet, PlanRefused
from isthmus.fabric.fabric import Fabric, open_fabric
from isthmus.kafka.admin.brokers import describe_cluster
from isthmus.kafka.client import Client
from isthmus.kafka.session import ClientSession
from isthmus.ledger.documents.kinds import LinkDocument
from isthmus.local import LocalCluster
from isthmus.memory import operators
from isthmus.memory.filtering import Filters, write_filters
from isthmus.memory.named import Opened
from isthmus.model.configuration import Configuration
from isthmus.model.lane import LaneState
from isthmus.model.links.progress import LinkProgress, PartitionProgress, TopicProgress
from isthmus.model.links.recovery import RecoveryStage, quarantine_of
from isthmus.model.namespace import NamespaceMap
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.process.whereabouts import Liveness
from isthmus.model.state import LinkState
from isthmus.recovery.sides import find_topic
from isthmus.run.recovering import SelfRecovery
from testing.groups.carrying import filled, records
from testing.records import topics
from testing.runs.declaring import both as both
from testing.runs.declaring import name as name
from testing.runs.recovering import FOREIGN, known, link_between, log_of, lost, recovered, told, topic_id, written
from testing.runs.running import patient
from testing.verbs import LinkRecoverer, Promoter

pytestmark = pytest.mark.integration

Namer = Callable[[str], str]


def apart(work: Coroutine[Any, Any, object]) -> None:
    """What somebody else does, in a process of his own, while the command stands still."""
    with ThreadPoolExecutor(1) as other:
        other.submit(asyncio.run, work).result()


def once(happening: Callable[[], None]) -> Callable[[], None]:
    """What happens at the first of several times."""
    left = [happening]
    return lambda: left.pop()() if left else None


def values(cluster: LocalCluster, topic: str) -> list[bytes | None]:
    return [each.value for each in log_of(cluster, topic)]


def set_aside(cluster: LocalCluster, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    """What the quarantine of a topic holds: kinds and values."""
    return [(dict(each.headers)["isthmus.kind"], each.value) for each in log_of(cluster, quarantine_of(topic))]


def attached(both: Configuration, east: LocalCluster, west: LocalCluster, name: str) -> tuple[Configuration, Promoter]:
    """A declared link of a topic that has diverged: the target has three records more."""
    filled(east, west, f"{name}.1", 10)
    topics.produce(west, f"{name}.1", FOREIGN)
    Fabric(both).declarations.create(name, source="east", target="west", maps=[NamespaceMap.parse(f"{name}.")])
    promoter = Promoter(configuration=replace(both, timings=patient(calm_s=0.1)), name=name, quiet_s=0.1)
    return open_fabric(both, declared=True).configuration, promoter


def showing(link: str, *names: str) -> LinkProgress:
    """A link whose topics have diverged, as its run reports them."""
    state = LaneState.DIVERGED
    return LinkProgress(
        link=link,
        source="east",
        target="west",
        state=LinkState.ACTIVE,
        topics=tuple(
            TopicProgress(
                topic=TargetTopic(each),
                source_topic=SourceTopic(each),
                state=state,
                partitions=(PartitionProgress(topic=TargetTopic(each), partition=0, state=state),),
            )
            for each in names
        ),
    )


def recovered_by_itself(configuration: Configuration, link: str, names: Iterable[str]) -> None:
    """What a run does that sees its topics diverged, and has not heard of anything since."""
    running = replace(configuration.link(link), on_divergence="recover")
    progress = showing(link, *names)
    asyncio.run(SelfRecovery().keep(lambda: [running], lambda: [progress], configuration.ledger))


def test_a_run_that_has_not_heard_of_a_failover_deletes_nothing(
    both: Configuration, east: LocalCluster, west: LocalCluster, name: str
) -> None:
    """Neither a topic whose link was failed over nor one of it that was only detached is deleted by the run's own
    recovery, which takes the link for what it was; and nothing stays paused.
    """
    looked, promoter = attached(both, east, west, name)
    before = asyncio.run(topic_id(west, f"{name}.1"))
    assert asyncio.run(promoter.failover()).is_done
    recovered_by_itself(looked, name, [f"{name}.1"])
    assert asyncio.run(topic_id(west, f"{name}.1")) == before
    assert len(log_of(west, f"{name}.1")) == 10 + len(FOREIGN)
    assert not known(west, name).paused.topics


def test_who_lets_go_of_a_link_ends_a_recovery_that_stood_still(
    both: Configuration, east: LocalCluster, west: LocalCluster, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A recovery that was taken for dead, and goes on when the link has been failed over, can announce no deletion."""
    looked, promoter = attached(both, east, west, name)
    before = asyncio.run(topic_id(west, f"{name}.1"))

    def failed_over() -> None:
        with monkeypatch.context() as patched:
            # So it seems to whoever looks from another host for ten seconds.
            patched.setattr(operators, "liveness_of", lambda _: Liveness.DEAD)
            apart(promoter.failover())

    recoverer = LinkRecoverer(configuration=looked, name=name, topics=[f"{name}.1"], quiet_s=0.1)
    with pytest.raises(PlanRefused, match="another process recovers link"):
        recovered(recoverer, "remembering", failed_over)
    assert asyncio.run(topic_id(west, f"{name}.1")) == before
    assert len(log_of(west, f"{name}.1")) == 10 + len(FOREIGN)


def test_what_was_set_aside_is_found_whatever_became_of_the_link(
    both: Configuration, east: LocalCluster, west: LocalCluster, name: str
) -> None:
    """By the link that recovered it, once that has let go of the topic; without a link at all clusters; and it can be
    replayed.
    """
    looked, promoter = attached(both, east, west, name)
    assert Fabric(looked).link(name).replay(f"{name}.1") == ()
    recovered(LinkRecoverer(configuration=looked, name=name, topics=[f"{name}.1"], quiet_s=0.1))
    assert asyncio.run(promoter.failover()).is_done
    opened = open_fabric(both, declared=True)
    for found in (opened.link(name).quarantine(), opened.link(name).quarantine(f"{name}.1")):
        assert [(each.topic, each.records) for each in found] == [(f"{name}.1", len(FOREIGN))]
    (replayed,) = opened.link(name).replay(f"{name}.1", dry_run=True)
    assert replayed.written == len(FOREIGN)
    Fabric(both).declarations.delete(name)
    everything = [each for each in Fabric(both).quarantine() if each.topic == f"{name}.1"]
    assert [(each.cluster, each.records) for each in everything] == [("west", len(FOREIGN))]


def test_a_topic_that_is_excluded_while_it_is_recovered_stays(
    east: LocalCluster, west: LocalCluster, topic: Namer
) -> None:
    """As late as when it is about to be deleted. It is neither deleted nor left paused."""
    link, name = topic("link"), topic("orders")
    lost(east, west, name)
    only = link_between(east, west, link, f"{name}*")
    before = asyncio.run(topic_id(west, name))

    async def exclude() -> None:
        async with ClientSession() as session:
            await write_filters(Opened(only, session), link, Filters(topics_exclude=(name,)))

    recoverer = LinkRecoverer(configuration=only, name=link, topics=[name], quiet_s=0.1)
    with pytest.raises(PlanRefused, match=f"does not mirror topic {name} any more"):
        recovered(recoverer, "deleting", lambda: apart(exclude()))
    assert asyncio.run(topic_id(west, name)) == before
    assert name not in known(west, link).paused.topics


def test_what_the_source_loses_while_a_topic_is_recovered_is_set_aside(
    east: LocalCluster, west: LocalCluster, topic: Namer
) -> None:
    """Up to the deletion: a source's topic that is made anew, and one of which retention deletes. Every record is at
    the source or in quarantine.
    """
    link, anew, shorter = topic("link"), topic("anew"), topic("shorter")
    for each in (anew, shorter):
        lost(east, west, each)
    held = {each: values(west, each) for each in (anew, shorter)}

    def made_anew() -> None:
        topics.delete(east, anew)
        topics.create(east, anew)
        topics.produce(east, anew, records(3, begin=500))

    only = link_between(east, west, link, anew, shorter)
    recoverer = partial(LinkRecoverer, configuration=only, name=link, quiet_s=0.1)
    changes: list[tuple[str, Callable[[], None]]] = [
        (anew, made_anew),
        (shorter, lambda: topics.delete_records(east, shorter, 7)),
    ]
    for each, happening in changes:
        (one,) = recovered(recoverer(topics=[each]), "deleting", once(happening)).topics
        assert one.stage is RecoveryStage.DONE
        found = [value for _, value in set_aside(west, each)]
        assert set(held[each]) <= {*values(east, each), *found}
        assert len(found) == len(set(found))
    kinds = {value: kind for kind, value in set_aside(west, shorter)}
    assert [kinds[b"%d" % n] for n in range(7)] == [b"expired"] * 7


def test_a_link_whose_source_is_another_cluster_recovers_nothing(
    east: LocalCluster, west: LocalCluster, topic: Namer
) -> None:
    """As plan and run refuse it: the topics would be filled from the wrong cluster."""
    link, name = topic("link"), topic("orders")
    lost(east, west, name)
    before = asyncio.run(topic_id(west, name))

    async def scenario() -> None:
        async with Client(west.cluster()) as target:
            target_id = (await describe_cluster(target)).cluster_id
        document = LinkDocument(
            link=link,
            source_cluster_id="another",
            target_cluster_id=target_id,
            producer_id=4_000_001,
            marker_producer_id=4_000_002,
        )
        await written(west, document)
        recoverer = LinkRecoverer(
            configuration=link_between(east, west, link, name), name=link, topics=[name], quiet_s=0.1
        )
        for dry_run in (True, False):
            with pytest.raises(PlanRefused, match="mirrored from cluster another until now"):
                await recoverer.recover(dry_run=dry_run)

    asyncio.run(scenario())
    assert asyncio.run(topic_id(west, name)) == before


def test_a_topic_that_is_created_by_itself_while_it_is_rebuilt(
    east: LocalCluster, west: LocalCluster, topic: Namer
) -> None:
    """A broker that creates it for a consumer that asks, with one partition and its own configuration: it gets what it
    was to be created with. One to which somebody has written by then is left as it is.
    """
    link, empty, busy = topic("link"), topic("empty"), topic("busy")
    for each in (empty, busy):
        filled(east, west, each, 10, partitions=3)
        topics.configure(west, each, retention_ms=7_777_777)
        topics.produce(west, each, FOREIGN)
    only = link_between(east, west, link, empty, busy)
    recoverer = partial(LinkRecoverer, configuration=only, name=link, quiet_s=0.1)
    recovered(recoverer(topics=[empty]), "creating it again", lambda: topics.create(west, empty))

    async def seen() -> tuple[int, str | None]:
        async with Client(west.cluster()) as client:
            there = await find_topic(client, empty)
            assert there is not None
            return there.partition_count, there.own_configs.get("retention.ms")

    assert asyncio.run(seen()) == (3, "7777777")

    def created() -> None:
        topics.create(west, busy)
        topics.produce(west, busy, records(2, begin=900))

    with pytest.raises(GateNotMet, match=f"topic {busy} of west was created by another client"):
        recovered(recoverer(topics=[busy]), "creating it again", created)
    assert values(west, busy) == [b"900", b"901"]
    topics.delete(west, busy)
    recovered(recoverer(topics=[busy]))
    assert [told(each)[1] for each in log_of(west, quarantine_of(busy))] == [each.value for each in FOREIGN]


def test_a_quarantine_that_would_delete_keeps_what_it_gets(
    east: LocalCluster, west: LocalCluster, topic: Namer
) -> None:
    """One that is there already, as a broker created it for whoever looked, has no retention by the time it is used."""
    link, name = topic("link"), topic("orders")
    lost(east, west, name)
    topics.create(west, quarantine_of(name), retention_ms=1000, cleanup_policy="compact")
    recovered(LinkRecoverer(configuration=link_between(east, west, link, name), name=link, topics=[name], quiet_s=0.1))

    async def seen() -> dict[str, str]:
        async with Client(west.cluster()) as client:
            there = await find_topic(client, quarantine_of(name))
            assert there is not None
            return there.own_configs

    configs = asyncio.run(seen())
    assert (configs["retention.ms"], configs["cleanup.policy"]) == ("-1", "delete")


def test_a_run_rebuilds_no_topic_that_holds_anything_of_others(
    east: LocalCluster, west: LocalCluster, topic: Namer
) -> None:
    """Whatever its state says: it is left to an operator, and is no longer paused."""
    link, name = topic("link"), topic("orders")
    lost(east, west, name)
    before = asyncio.run(topic_id(west, name))
    recovered_by_itself(link_between(east, west, link, name), link, [name])
    assert asyncio.run(topic_id(west, name)) == before
    assert name not in known(west, link).paused.topics
