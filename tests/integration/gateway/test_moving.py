"""Clients of a gateway that are moved to another cluster while they write and read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from isthmus.errors import ConfigError, GateNotMet, PlanRefused
from isthmus.fabric.fabric import Fabric
from isthmus.gateway.moving import moving_with
from isthmus.gateway.ports import ListenRange
from isthmus.gateway.server import GatewaySettings, listening
from isthmus.kafka.client import Client
from isthmus.ledger.documents.kinds import MoveDocument
from isthmus.ledger.log import append_once
from isthmus.ledger.records import Deletion
from isthmus.links import promotion
from isthmus.local import LocalCluster
from isthmus.memory import leaving
from isthmus.model.configuration import Configuration
from isthmus.model.gateways.moves import MoveStep
from isthmus.model.kafka.group import Committed
from isthmus.model.links.promotion import LeftPartition
from isthmus.model.namespace import NamespaceMap
from isthmus.model.process.listening import ListenAddress
from testing.gateways.gateways import HOST, Running, free_range, gateway
from testing.gateways.moving import (
    Judged,
    await_gateway,
    await_more,
    await_read,
    committed_at,
    forget_moves,
    have_later_epochs,
    java,
    judged,
    kafka_python,
    kafka_python_reader,
    librdkafka,
    librdkafka_reader,
    linked_alike,
    made,
    moved,
    read_all,
    reversed_with_lanes,
)
from testing.groups import carrying, consumers
from testing.patience import TERM_S
from testing.records import topics
from testing.runs.mirror import Mirror
from testing.verbs import Promoter

pytestmark = pytest.mark.integration


def test_writers_that_are_moved(
    east: LocalCluster, east3: LocalCluster, topic: Callable[[str], str], tmp_path: Path
) -> None:
    """Three kinds of clients write while they are moved to a cluster with other brokers, back, and there again: nothing
    is lost, nothing comes twice, nothing is out of order. Two kinds read on meanwhile: each offset once, in order. The
    other cluster has later leader epochs.
    """
    name, clusters = topic("moving"), (east, east3)
    for cluster in clusters:
        made(cluster, name)
    have_later_epochs(east3, name)
    with gateway(east.cluster(), size=3) as running, ExitStack() as stack:
        writers = [
            stack.enter_context(librdkafka(running.servers, name)),
            stack.enter_context(kafka_python(running.servers, name, tmp_path)),
            stack.enter_context(java(running.servers, name, tmp_path)),
        ]
        readers = [
            stack.enter_context(librdkafka_reader(running.servers, name)),
            stack.enter_context(kafka_python_reader(running.servers, name, tmp_path)),
        ]
        await_more(writers)
        for stay in (1, 2, 3):
            moved(running, clusters[(stay + 1) % 2], clusters[stay % 2], name, stay=stay)
            await_more(writers)
        for writer in writers:
            writer.end()
        acknowledged = {writer.name: writer.acknowledged() for writer in writers}
        records = read_all(east3, name)
        ends = {partition: len(values) for partition, values in records.items()}
        await_read(readers, ends)
        for reader in readers:
            assert reader.offsets() == {partition: list(range(end)) for partition, end in ends.items()}, reader.name

    assert {each: judged(records, each, numbers) for each, numbers in acknowledged.items()} == {
        each: Judged() for each in "rp7"
    }


def test_positions_that_were_read_under_other_leader_epochs(
    east: LocalCluster, east3: LocalCluster, topic: Callable[[str], str]
) -> None:
    """A consumer commits where it is after it was moved to a cluster with earlier leader epochs: whoever goes on there
    is not kept waiting for a leader that has come to the other cluster's.
    """
    name = topic("epochs")
    for cluster in (east, east3):
        made(cluster, name)
    have_later_epochs(east3, name)
    with gateway(east3.cluster(), size=3) as running, ExitStack() as stack:
        writer = stack.enter_context(librdkafka(running.servers, name))
        settings = {"bootstrap.servers": running.servers, "group.id": name, "enable.auto.commit": False}
        consumer = Consumer({**settings, "auto.offset.reset": "error"})
        consumer.assign([TopicPartition(name, 0, 0)])
        read = consumer.consume(10, TERM_S)
        assert {each.leader_epoch() for each in read} >= {4}
        moved(running, east3, east, name, stay=1)
        consumer.commit(message=read[-1], asynchronous=False)
        consumer.close()
        await_more([writer])
        later = Consumer({**settings, "auto.offset.reset": "error"})
        later.assign([TopicPartition(name, 0)])
        (found,) = later.consume(1, TERM_S)
        later.close()
        writer.end()
        committed = asyncio.run(committed_at(east, name))
    assert (found.error(), found.offset()) == (None, 10)
    assert committed == {(name, 0): Committed(10)}


def test_clients_go_with_a_link_that_is_reversed(
    east: LocalCluster, east3: LocalCluster, topic: Callable[[str], str], tmp_path: Path
) -> None:
    """Leader and follower change places while clients write, there and back: nobody has to stop them. What speaks
    against it is told before anything is changed.
    """
    name, clusters = topic("reversed"), (east, east3)
    configuration, links = linked_alike(name, *clusters)
    with gateway(east.cluster(), size=3, configuration=configuration) as running, ExitStack() as stack:
        writers = [
            stack.enter_context(librdkafka(running.servers, name)),
            stack.enter_context(kafka_python(running.servers, name, tmp_path)),
            stack.enter_context(java(running.servers, name, tmp_path)),
        ]
        # Named before what other tests have left there: only the first ones are.
        made(east, f"0-{name}")
        consumers.commit(east, {f"0-{name}": {(name, 0): 0}})
        with pytest.raises(PlanRefused, match=f"topics.*0-{name}.*groups.*0-{name}") as told:
            asyncio.run(Promoter(configuration=configuration, name=name).reverse(f"{name}-1"))
        assert (told.value.hint or "").startswith(f"isthmus link attach {name} (--map topics, --group-map groups)")
        await_more(writers)
        found, shown = [], [served_by(configuration, running)]
        for stay, mirror in ((1, Mirror(east, east3)), (2, Mirror(east3, east))):
            link = name if stay == 1 else f"{name}-1"
            found.append(reversed_with_lanes(configuration, link, f"{name}-{stay}", mirror, name))
            shown.append(served_by(configuration, running))
            await_more(writers)
        for writer in writers:
            writer.end()
        acknowledged = {writer.name: writer.acknowledged() for writer in writers}
        links.delete(f"{name}-2")

    records = read_all(east, name)
    assert {each: judged(records, each, numbers) for each, numbers in acknowledged.items()} == {
        each: Judged() for each in "rp7"
    }
    assert [len(each.gateways) for each in found] == [1, 1]
    assert shown == ["east", "east3", "east"]
    assert [each.paused_s is not None for each in found] == [True, True], [each.paused_s for each in found]
    assert len(records[0]) > len(read_all(east3, name)[0])


def served_by(configuration: Configuration, running: Running) -> str:
    """The cluster that whoever looks at gateways finds this one to serve."""
    found = Fabric(configuration).gateways().gateways
    (one,) = [each for each in found if each.address.startswith(f"{running.servers} ")]
    assert not one.is_silent
    return one.serves


def test_clients_are_not_stopped_for_what_will_not_come(
    east: LocalCluster, east3: LocalCluster, topic: Callable[[str], str]
) -> None:
    """What was detached before, as by a command that was interrupted, and has got more at the source since, cannot be
    promoted: that is found while clients go on.
    """
    name = topic("left")
    configuration, links = linked_alike(name, east, east3)
    (wanted,) = links.describe(name).declaration.maps
    with gateway(east.cluster(), size=3, configuration=configuration):
        asyncio.run(Promoter(configuration=configuration, name=name).detach())
        topics.produce(east, name, carrying.records(3))
        steps: list[str] = []
        promoter = Promoter(
            configuration=configuration, name=name, maps=(wanted,), clients="force", on_step=steps.append
        )
        with pytest.raises(GateNotMet, match="nothing more comes there"):
            asyncio.run(promoter.promote())
        links.delete(name)

    assert not any("take no" in step for step in steps), steps


def test_an_end_that_is_not_known_is_waited_for(
    east: LocalCluster, east3: LocalCluster, topic: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a partition of what was detached before has no leader for a moment, nobody knows that it lacks anything."""
    name = topic("unknown")
    configuration, links = linked_alike(name, east, east3)
    (wanted,) = links.describe(name).declaration.maps
    looks: list[bool] = []

    async def left_partitions(*args: Any, **options: Any) -> tuple[LeftPartition, ...]:
        looks.append(True)
        left = await leaving.left_partitions(*args, **options)
        return tuple(replace(each, missing_records=-1) for each in left) if len(looks) == 1 else left

    with gateway(east.cluster(), size=3, configuration=configuration):
        asyncio.run(Promoter(configuration=configuration, name=name).detach())
        monkeypatch.setattr(promotion, "left_partitions", left_partitions)
        promoter = Promoter(configuration=configuration, name=name, maps=(wanted,), clients="force", quiet_s=0.2)
        assert asyncio.run(promoter.promote()).gateways
        asyncio.run(forget_moves(east, east3))
    links.delete(name)

    assert len(looks) > 1


def test_clients_go_with_a_link_that_fails_over(
    east: LocalCluster, east3: LocalCluster, topic: Callable[[str], str]
) -> None:
    """A failover takes the clients of the source's gateways along, which a dry run names. Where names differ they stay,
    and that is said.
    """
    name = topic("failed")
    configuration, links = linked_alike(name, east, east3)
    made(east3, f"far.{name}")
    other = f"{name}-other"
    links.create(other, source="east", target="east3", maps=[NamespaceMap.parse(f"{name}:far.{name}", is_exact=True)])
    try:
        with gateway(east.cluster(), size=3, configuration=configuration) as running:
            asyncio.run(await_gateway(east3))
            renamed = asyncio.run(Promoter(configuration=configuration, name=other, timeout_s=TERM_S).failover())
            assert renamed.gateways == ()
            assert [each.message for each in renamed.notes if "stay with east: names differ" in each.message]
            assert len(brokers(running.servers)) == 1
            promoter = Promoter(configuration=configuration, name=name, timeout_s=TERM_S)
            planned = asyncio.run(promoter.failover(dry_run=True))
            assert len(planned.gateways) == 1
            found = asyncio.run(promoter.failover())
            assert found.gateways == planned.gateways
            assert len(brokers(running.servers)) == 3
            assert asyncio.run(promoter.failover()).gateways == ()
        links.delete(name)
        links.delete(other)
    finally:
        asyncio.run(forget_moves(east, east3))


def test_clients_stay_while_a_part_fails_over(
    east: LocalCluster, east3: LocalCluster, topic: Callable[[str], str]
) -> None:
    """What follows on would be refused to them, and what has another name would not be found: also where that was let
    go of before. They go with the last of what is named alike.
    """
    name = topic("part")
    configuration, links = linked_alike(name, east, east3)
    links.attach(name, [NamespaceMap.parse(f"{name}-group", kind="group")])
    alike = NamespaceMap.parse(f"{name}:{name}", is_exact=True)
    made(east3, f"far.{name}")
    other, far = f"{name}-other", NamespaceMap.parse(f"{name}:far.{name}", is_exact=True)
    links.create(other, source="east", target="east3", maps=[far, NamespaceMap.parse(f"{name}-far", kind="group")])

    def failover(link: str, *maps: NamespaceMap) -> tuple[int, str]:
        """How many gateways' clients go, and what is said of those that do not."""
        promoter = Promoter(configuration=configuration, name=link, timeout_s=TERM_S, maps=maps)
        planned, found = (asyncio.run(promoter.failover(dry_run=dry_run)) for dry_run in (True, False))
        assert [each.message for each in planned.notes] == [each.message for each in found.notes]
        return len(found.gateways), " ".join(each.message for each in found.notes)

    try:
        with gateway(east.cluster(), size=3, configuration=configuration) as running:
            asyncio.run(await_gateway(east3))
            for link, first, then in ((other, far, "names differ"), (name, alike, "")):
                moved, said = failover(link, first)
                assert moved == 0
                assert "still follows" in said
                assert len(brokers(running.servers)) == 1
                moved, said = failover(link)
                assert (moved, then in said) == (0 if then else 1, True)
            assert len(brokers(running.servers)) == 3
        links.delete(name)
        links.delete(other)
    finally:
        asyncio.run(forget_moves(east, east3))


def test_clients_that_have_moved_go_with_a_link_that_fails_over(
    east: LocalCluster, east3: LocalCluster, west: LocalCluster, topic: Callable[[str], str]
) -> None:
    """The cluster that they come to knows nothing of how often they have moved before: the gateway follows all the
    same.
    """
    name = topic("further")
    configuration, links = linked_alike(name, east, east3, west)
    maps = [NamespaceMap.parse(f"{name}:{name}", is_exact=True)]
    try:
        with gateway(east.cluster(), size=3, configuration=configuration) as running:
            reversed_with_lanes(configuration, name, f"{name}-back", Mirror(east, east3), name)
            links.create(f"{name}-on", source="east3", target="west", maps=maps)
            asyncio.run(await_gateway(west))
            promoter = Promoter(configuration=configuration, name=f"{name}-on", timeout_s=TERM_S)
            assert len(asyncio.run(promoter.failover()).gateways) == 1
            assert served_by(configuration, running) == "west"
        for link in ("back", "on"):
            links.delete(f"{name}-{link}")
    finally:
        asyncio.run(forget_moves(east, east3, west))


def brokers(servers: str) -> list[int]:
    """The ids of the brokers that clients see."""
    return list(AdminClient({"bootstrap.servers": servers}).list_topics(timeout=TERM_S).brokers)


def test_a_configuration_that_lacks_where_clients_are(east: LocalCluster) -> None:
    """A gateway of which nobody knows where to serve clients from does not begin, and says where they have gone."""
    port = free_range(1)
    settings = GatewaySettings(listen=ListenRange(HOST, port, port), advertise=ListenAddress(HOST, port))
    configuration = Configuration(clusters=(east.cluster(),), links=())

    async def work() -> None:
        async with Client(east.cluster()) as client:
            await client.metadata()
            gone = MoveDocument(
                source=client.cluster.cluster_id or "",
                source_alias="east",
                target="far-away",
                target_alias="nowhere",
                link="orders",
                move="one",
                step=MoveStep.SERVE,
                stay=200,
                first_node=1,
                by="kate",
                since_ms=0,
            )
            await append_once(client, [gone], replication_factor=1)
            try:
                beside = moving_with(configuration, settings)
                with pytest.raises(ConfigError, match=r"clients of east have moved to nowhere \(far-away\), which"):
                    async with listening(east.cluster(), settings, beside=beside):
                        pass
            finally:
                await append_once(client, [Deletion(gone.key)], replication_factor=1)

    asyncio.run(asyncio.wait_for(work(), TERM_S))
