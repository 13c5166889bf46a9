"""Recoveries that were cut off, and what became of their topic before the command is given again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from isthmus.errors import GateNotMet
from isthmus.kafka.batches.batch import Batch
from isthmus.kafka.client import Client
from isthmus.ledger.documents.kinds import RecoveryDocument
from isthmus.local import LocalCluster
from isthmus.model.links.recovery import RecoveryStage, RecoveryWay, RestoredPosition
from isthmus.model.naming import TargetTopic
from isthmus.recovery import replaying
from isthmus.recovery.positions import restore
from isthmus.recovery.quarantine import Row, parcels
from isthmus.recovery.replaying import Replayer
from testing import verbs
from testing.groups import consumers
from testing.groups.carrying import records
from testing.records import topics
from testing.records.transactions import TransactionalProducer
from testing.runs.recovering import (
    Interrupted,
    committed,
    cut_before_commit,
    known,
    link_between,
    log_of,
    lost,
    recovered,
)
from testing.verbs import LinkRecoverer

pytestmark = pytest.mark.integration

Namer = Callable[[str], str]
SOURCE = [*records(12), *records(5, begin=100)]
"""What the source of a topic that `lost` records holds."""


def stage(cluster: LocalCluster, link: str, topic: str) -> str | None:
    """How far the recovery of a topic came, by the ledger."""
    found = known(cluster, link).documents.get(f"{RecoveryDocument.KIND}/{link}/{topic}")
    return found.stage if isinstance(found, RecoveryDocument) else None


@pytest.mark.parametrize("is_created", [False, True], ids=["gone", "created again"])
def test_a_topic_that_is_deleted_by_hand_does_not_stay_paused(
    east: LocalCluster, west: LocalCluster, topic: Namer, is_created: bool
) -> None:
    """Deleted after its recovery had begun by pausing it: given again, the command takes back what it had begun."""
    link, name = topic("link"), topic("orders")
    lost(east, west, name)
    recoverer = LinkRecoverer(configuration=link_between(east, west, link, name), name=link, topics=[name], quiet_s=0.1)
    with pytest.raises(Interrupted):
        recovered(recoverer, "waiting until no producer writes")
    assert name in known(west, link).paused.topics
    topics.delete(west, name)
    if is_created:
        topics.create(west, name)
    (one,) = recovered(recoverer).topics
    assert one.stage is None
    assert stage(west, link, name) is None
    assert name not in known(west, link).paused.topics


def test_a_topic_that_is_gone_is_created_again(east: LocalCluster, west: LocalCluster, topic: Namer) -> None:
    """A deletion comes late, while the command looks at the topic once more; then the one in its place is deleted by
    hand: whoever gives the command again goes on, and its group stands where it stood.
    """
    link, name, group = topic("link"), topic("orders"), topic("group")
    lost(east, west, name)
    consumers.commit(west, {group: {(name, 0): 7}})
    recoverer = LinkRecoverer(configuration=link_between(east, west, link, name), name=link, topics=[name], quiet_s=0.1)
    with pytest.raises(Interrupted):
        recovered(recoverer, "deleting")
    with pytest.raises(GateNotMet, match="was deleted meanwhile"):
        recovered(recoverer, "comparing", lambda: topics.delete(west, name))
    for _ in range(2):
        with pytest.raises(GateNotMet, match="waits to be filled"):
            recovered(recoverer)
        assert (stage(west, link, name), log_of(west, name)) == (RecoveryStage.REFILLING, [])
        assert name not in known(west, link).paused.topics
        topics.delete(west, name)
    with pytest.raises(GateNotMet, match="waits to be filled"):
        recovered(recoverer)
    topics.produce(west, name, SOURCE)
    (one,) = recovered(recoverer).topics
    assert one.stage is RecoveryStage.DONE
    consumers.await_position(west, group, (name, 0), 7)


def replayed(east: LocalCluster, west: LocalCluster, link: str, name: str, into: str) -> None:
    """What was set aside of a topic is written into another one of the source."""

    async def asked() -> None:
        async with Client(west.cluster()) as target, Client(east.cluster()) as source:
            topic = TargetTopic(name)
            await Replayer(
                link=link, target=target, destination=source, topic=topic, into=into, patience_s=0.5
            ).replay()

    asyncio.run(asked())


def test_an_open_transaction_hides_nothing_that_was_replayed(
    east: LocalCluster, west: LocalCluster, topic: Namer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A replay was cut off behind a transaction that somebody else has open there: given again it is refused until that
    ends, and then writes what is not there yet.
    """
    link, name, into = topic("link"), topic("orders"), topic("into")
    lost(east, west, name)
    recovered(LinkRecoverer(configuration=link_between(east, west, link, name), name=link, topics=[name], quiet_s=0.1))
    topics.create(east, into)
    other = TransactionalProducer(east, into)

    def behind_another(rows: list[Row]) -> Iterator[Batch]:
        other.send(into, records(1, begin=500))
        yield from parcels(rows[:3])
        raise Interrupted

    with monkeypatch.context() as patched:
        patched.setattr(replaying, "parcels", behind_another)
        with pytest.raises(Interrupted):
            replayed(east, west, link, name, into)
    with pytest.raises(GateNotMet, match=f"a transaction is open in {into}-0 of east: {into}"):
        replayed(east, west, link, name, into)
    other.end(commit=False)
    replayed(east, west, link, name, into)
    assert [each.value for each in log_of(east, into)] == [b"%d" % n for n in range(12, 20)]


def test_what_was_said_before_a_commit_that_never_came_is_said_again(
    east: LocalCluster, west: LocalCluster, topic: Namer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A topic was to go on mapped, and the command was cut off before that was committed: given again it writes all of
    it once more, as brokers drop what was aborted.
    """
    link, name = topic("link"), topic("orders")
    lost(east, west, name)
    mapped = LinkRecoverer(
        configuration=link_between(east, west, link, name),
        name=link,
        topics=[name],
        way=RecoveryWay.MAPPED,
        quiet_s=0.1,
    )
    with pytest.raises(Interrupted):
        recovered(mapped, "going on behind", lambda: cut_before_commit(monkeypatch))
    assert not {"parted", "map", "topic"} & committed(west, link)
    (one,) = recovered(mapped).topics
    assert one.stage is RecoveryStage.DONE
    assert {"parted", "map", "topic", "recovery"} <= committed(west, link)
    assert name not in known(west, link).paused.topics


def test_a_position_that_a_coordinator_has_kept_is_put_back(west: LocalCluster, topic: Namer) -> None:
    """It is where the group stood in the topic that was deleted; what else stands there is newer, and stays."""
    name, kept, newer, alike = (topic(each) for each in ("orders", "kept", "newer", "alike"))
    topics.create(west, name)
    consumers.commit(west, {kept: {(name, 0): 22}, newer: {(name, 0): 15}, alike: {(name, 0): 7}})
    wanted = [
        RestoredPosition(group=group, partition=0, before=before, after=after)
        for group, before, after in ((kept, 22, 20), (newer, 22, 20), (alike, 7, 7))
    ]

    async def asked() -> tuple[RestoredPosition, ...]:
        async with Client(west.cluster()) as client:
            return await restore(client, TargetTopic(name), [], wanted)

    found = {each.group: (each.after, each.reason) for each in asyncio.run(asked())}
    assert found == {kept: (20, ""), newer: (15, "the group, or the link, was quicker"), alike: (7, "")}
    consumers.await_position(west, kept, (name, 0), 20)


def test_an_operator_who_pauses_a_topic_while_it_is_recovered_finds_it_paused(
    east: LocalCluster, west: LocalCluster, topic: Namer
) -> None:
    """He is not told that it was paused already, by a recovery that is to take this back; and it does not take his."""
    link, name = topic("link"), topic("orders")
    lost(east, west, name)
    only = link_between(east, west, link, name)
    recoverer = LinkRecoverer(configuration=only, name=link, topics=[name], quiet_s=0.1)
    told: list[bool] = []

    def pause() -> None:
        with ThreadPoolExecutor(1) as operator:
            pausing_it = verbs.pause(only.link(link), topic=name)
            told.append(operator.submit(asyncio.run, pausing_it).result())

    (one,) = recovered(recoverer, "comparing", pause).topics
    pause()
    assert (one.stage, told) == (RecoveryStage.DONE, [False, True])
    assert name in known(west, link).paused.topics
