"""Access rules keep readers out of a follower whose link is SYNCING, where no gateway hides it, and go to the last."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from isthmus.access import readers as reading
from isthmus.access.enforcement import Keeping
from isthmus.errors import ClusterError
from isthmus.fabric.fabric import Fabric, open_fabric
from isthmus.kafka.admin.brokers import Operation, describe_cluster
from isthmus.kafka.client import Client
from isthmus.ledger.documents.kinds import Document, GatewayPairDocument, ReadableDocument
from isthmus.ledger.link import read_documents
from isthmus.ledger.log import append_once
from isthmus.local import LocalCluster
from isthmus.loops.loop import LinkView
from isthmus.model.cluster import Cluster
from isthmus.model.configuration import Configuration
from isthmus.model.gateways.synchrony import OutOfSync, SyncState
from isthmus.model.link import Link
from isthmus.model.links.declaration import attachment, letting_go
from isthmus.model.links.progress import LinkProgress
from isthmus.model.namespace import NamespaceMap
from isthmus.model.problem import Problem
from isthmus.model.registers import MODE
from isthmus.model.text.plain import plain
from isthmus.namespaces.reservations import ReservationsLoop
from isthmus.topics.plan import LinkPlan
from testing.gateways.gateways import gateway
from testing.links.reserving import admin_of, as_isthmus, rules_at
from testing.patience import TERM_S
from testing.records import topics
from testing.verbs import AsyncDeclaredLinks

pytestmark = pytest.mark.integration
_T = TypeVar("_T")
_FIELDS = ("restype", "name", "resource_pattern_type", "principal", "host", "operation", "permission_type")


@dataclass(frozen=True, slots=True)
class Following:
    """A declared link whose follower access rules close; the link is a super user there."""

    fabric: Fabric
    guarded: LocalCluster
    each: NamespaceMap
    name: str
    loop: ReservationsLoop = field(default_factory=ReservationsLoop)
    runs_as: Cluster | None = None

    @property
    def topic(self) -> str:
        return f"{self.name}.orders"

    @property
    def link(self) -> Link:
        opened = open_fabric(self.fabric.configuration, declared=True).configuration
        (found,) = [each for each in opened.links if each.name == self.name]
        return replace(found, target=self.runs_as or found.target)

    def say(self, values: Callable[[Any], dict[str, Any]]) -> str:
        """What a command says of the link; by which statement it has its mode then."""
        links = AsyncDeclaredLinks(self.fabric.configuration)
        return asyncio.run(links.change(self.name, values)).declaration.mode_said

    def mode(self, mode: str) -> str:
        return self.say(lambda _: {MODE: mode})

    def begin(self) -> str:
        """Have it be synchronous, and whoever runs it look; by which statement it is."""
        statement = self.mode("sync")
        assert self.passed()[1] == []
        return statement

    def status(self) -> LinkProgress:
        """What is shown of the link."""
        (found,) = open_fabric(self.fabric.configuration, declared=True).status(link=self.name)
        return found

    def write(self, document: Document) -> None:
        """Have the follower's ledger hold this."""

        async def story() -> None:
            async with Client(admin_of(self.guarded)) as client:
                await append_once(client, [document], replication_factor=None)

        asyncio.run(story())

    def viewed(self, work: Callable[[LinkView], Awaitable[_T]]) -> _T:
        """What comes of work with the link as whoever runs it sees it."""

        async def story() -> _T:
            link = self.link
            async with Client(link.source) as source, Client(link.target) as target:
                documents = await read_documents(target, link.name)
                plan = LinkPlan(link=link.name, source="east", target="guarded")
                return await work(LinkView(link=link, source=source, target=target, plan=plan, documents=documents))

        return asyncio.run(story())

    def passed(self) -> tuple[list[str], list[Problem]]:
        """One pass of the loop of whoever runs the link: what it found, and what it could not do."""

        async def story(view: LinkView) -> tuple[list[str], list[Problem]]:
            found = await self.loop.look(view)
            left = await self.loop.apply(view, found)
            told = [f"{change.before} {change.after} {change.setting}" for change in found]
            return sorted(told), [change.problem for change in left if change.problem is not None]

        return self.viewed(story)

    def is_awaited(self) -> bool:
        """Whether the loop is to look now, without waiting for its interval."""

        async def story(view: LinkView) -> bool:
            return self.loop.is_awaited(view)

        return self.viewed(story)

    def error(self) -> int | None:
        """What a consumer that goes to brokers, and is no super user, is told; `None` where it reads."""
        consumer = Consumer({**as_isthmus(self.guarded), "group.id": "nobody", "auto.offset.reset": "earliest"})
        consumer.assign([TopicPartition(self.topic, 0, 0)])
        deadline = time.monotonic() + TERM_S
        try:
            while (message := consumer.poll(0.2)) is None:
                assert time.monotonic() < deadline
            error = message.error()
            return None if error is None else error.code()
        finally:
            consumer.close()

    def reads(self, *, is_let: bool) -> None:
        """Wait until that is so: rules reach the part of a broker that judges a moment after they are told."""
        wanted = None if is_let else KafkaError.TOPIC_AUTHORIZATION_FAILED
        deadline = time.monotonic() + TERM_S
        while (found := self.error()) != wanted:
            assert time.monotonic() < deadline, found


@pytest.fixture
def following(guarded: LocalCluster, east: LocalCluster, topic: Callable[[str], str]) -> Iterator[Following]:
    """One with a record at the follower; once it is deleted no rule is there that was not before."""
    with followed(guarded, east, topic("unread"), Keeping(has_super_user=True)) as found:
        yield found


@contextmanager
def followed(guarded: LocalCluster, east: LocalCluster, name: str, keep: Keeping) -> Iterator[Following]:
    """One of which rules keep out all but these."""
    each = NamespaceMap.parse(f"{name}.")
    before = rules_at(guarded)
    fabric = Fabric(Configuration(clusters=(east.cluster(), admin_of(guarded)), links=()))
    fabric.declarations.create(name, source=east.name, target=guarded.name, maps=[each], validate=False, enforce=keep)
    found = Following(fabric, guarded, each, name)
    topics.create(guarded, found.topic)
    topics.produce(guarded, found.topic, topics.some(1, random.Random(1)))
    yield found
    fabric.declarations.delete(name)
    fabric.cluster(guarded.name).namespaces.delete(each.target)
    assert rules_at(guarded) == before


def test_nobody_reads_what_is_syncing(following: Following) -> None:
    """From when whoever runs it sees that it is synchronous until it was in sync: then, and by whichever command it is
    synchronous no more, everybody reads again. A rule that somebody deletes meanwhile is made again.
    """
    guarded, name = following.guarded, following.name
    closed = rules_at(guarded)
    following.reads(is_let=True)
    assert following.passed() == ([], [])
    statement = following.mode("sync")
    assert following.is_awaited()
    assert following.passed()[1] == []
    made = rules_at(guarded)
    assert [each for each in made - closed if "READ" not in each or "DENY" not in each] == []
    assert made - closed
    following.reads(is_let=False)
    assert following.passed() == ([], [])
    admin = AdminClient({"bootstrap.servers": guarded.admin_bootstrap_servers})
    about: list[Any] = [ResourceType.TOPIC, f"{name}.", ResourcePatternType.PREFIXED, None, None]
    about += [AclOperation.READ, AclPermissionType.DENY]
    rule = AclBindingFilter(*about)
    for deletion in admin.delete_acls([rule]).values():
        assert deletion.result(TERM_S)
    await_rules(guarded, closed)
    found, problems = following.passed()
    assert ([each.split(" by ")[0] for each in found], problems) == (["None DENY READ"] * len(found), [])
    assert rules_at(guarded) == made

    assert not following.is_awaited()
    following.write(ReadableDocument(link=name, said=statement, since_ms=1))
    assert following.is_awaited()
    found, problems = following.passed()
    assert ([each.split(" by ")[0] for each in found], problems) == (["DENY None READ"] * len(found), [])
    assert rules_at(guarded) == closed
    following.reads(is_let=True)
    assert following.passed() == ([], [])

    following.mode("async")
    following.begin()
    assert rules_at(guarded) == made
    following.mode("async")
    assert rules_at(guarded) == closed
    following.begin()
    assert rules_at(guarded) == made
    following.say(lambda known: letting_go("detach", known.maps, known))
    assert rules_at(guarded) == closed
    following.reads(is_let=True)
    following.say(lambda _: {attachment(following.each): True, MODE: "sync"})
    assert following.passed()[1] == []
    assert rules_at(guarded) == made


def await_rules(cluster: LocalCluster, wanted: set[str]) -> None:
    """Wait until brokers tell just these."""
    deadline = time.monotonic() + TERM_S
    while rules_at(cluster) != wanted:
        assert time.monotonic() < deadline


def test_what_is_interrupted_leaves_nothing(following: Following, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs it ends before rules are made, or a command before they are taken back: whoever looks next goes on,
    and a rule that was there before stays.
    """
    guarded = following.guarded
    admin = AdminClient({"bootstrap.servers": guarded.admin_bootstrap_servers})
    about = (ResourceType.TOPIC, f"{following.name}.", ResourcePatternType.PREFIXED, "User:alice", "*")
    own = AclBinding(*about, AclOperation.READ, AclPermissionType.DENY)
    for future in admin.create_acls([own]).values():
        future.result(TERM_S)
    closed = rules_at(guarded) | {str(own)}
    await_rules(guarded, closed)

    async def cut_off(*_: object) -> None:
        raise ClusterError("cut off")

    with monkeypatch.context() as patched:
        patched.setattr(reading, "make", cut_off)
        with pytest.raises(ClusterError, match="cut off"):
            following.begin()
    assert rules_at(guarded) == closed
    following.mode("async")
    assert rules_at(guarded) == closed
    statement = following.begin()
    made = rules_at(guarded)
    assert made > closed
    with monkeypatch.context() as patched:
        patched.setattr(reading, "take_back", cut_off)
        with pytest.raises(ClusterError, match="cut off"):
            following.mode("async")
    assert rules_at(guarded) == made
    assert plain(following.status())["unread"] == [f"{following.name}.*"]
    following.write(ReadableDocument(link=following.name, said=statement, since_ms=1))
    assert following.passed()[1] == []
    assert rules_at(guarded) == closed
    assert not following.status().unread
    following.begin()
    assert rules_at(guarded) == made
    for deletion in admin.delete_acls([AclBindingFilter(*(getattr(own, name) for name in _FIELDS))]).values():
        deletion.result(TERM_S)


def test_where_rules_are_not_made(following: Following) -> None:
    """Where a gateway hides what is SYNCING none are made; and none where they would keep out a gateway that has to
    read, which is said.
    """
    guarded, fabric = following.guarded, following.fabric
    closed = rules_at(guarded)
    namespaces = fabric.cluster(guarded.name).namespaces
    alone = Configuration(clusters=(admin_of(guarded),), links=())
    with gateway(admin_of(guarded), configuration=alone) as running:
        deadline = time.monotonic() + TERM_S
        while not namespaces.describe(following.each.target).has_gateway:
            assert time.monotonic() < deadline
        statement = following.mode("sync")
        assert rules_at(guarded) == closed
        while not running.gateway.serving.hidden.holds(following.topic):
            assert time.monotonic() < deadline
        assert following.passed() == ([], [])
    assert following.passed()[1] == []
    made = rules_at(guarded)
    assert made > closed
    following.write(word_of(following, statement, "User:stranger"))
    _, (problem,) = following.passed()
    assert "a gateway reads there as User:stranger" in problem.message
    assert rules_at(guarded) == closed


def test_a_gateway_that_is_heard_later_reads(
    guarded: LocalCluster, east: LocalCluster, topic: Callable[[str], str]
) -> None:
    """A gateway may say who it is behind whoever runs the link: a rule against it is taken back then, as it would never
    prove what the follower has. All of them go where nobody can tell who it is.
    """
    reader = guarded.cluster().principal
    assert reader is not None
    with followed(guarded, east, topic("later"), Keeping(principals=("User:link",))) as following:
        closed = rules_at(guarded)
        statement = following.begin()
        made = rules_at(guarded)
        assert any(f"{reader}," in each for each in made - closed)
        following.write(word_of(following, statement, reader))
        assert following.passed()[1] == []
        assert not any(f"{reader}," in each for each in rules_at(guarded) - closed)
        following.reads(is_let=True)
        assert following.passed() == ([], [])
        following.write(word_of(following, statement, ""))
        _, (problem,) = following.passed()
        assert "a principal that its file does not name" in problem.message
        assert rules_at(guarded) == closed


def test_who_could_not_take_rules_back_makes_none(
    guarded: LocalCluster, east: LocalCluster, topic: Callable[[str], str]
) -> None:
    """Readers would be kept out of what is in sync: whoever ran the link could not let them in. That is said; a command
    makes none either, whatever its login may do.
    """
    runs_as = guarded.cluster()
    admin = AdminClient({"bootstrap.servers": guarded.admin_bootstrap_servers})
    assert runs_as.principal is not None
    about = (ResourceType.BROKER, "kafka-cluster", ResourcePatternType.LITERAL, runs_as.principal, "*")
    kept_from = AclBinding(*about, AclOperation.ALTER, AclPermissionType.DENY)
    with followed(guarded, east, topic("unable"), Keeping(principals=("User:link",))) as following:
        for future in admin.create_acls([kept_from]).values():
            future.result(TERM_S)
        await_rules(guarded, closed := rules_at(guarded) | {str(kept_from)})
        try:
            statement = following.mode("sync")
            assert rules_at(guarded) == closed
            deadline = time.monotonic() + TERM_S
            while asyncio.run(may_alter(runs_as)):
                # A rule reaches the part of a broker that judges a moment after it is told.
                assert time.monotonic() < deadline
            as_runner = replace(following, runs_as=runs_as)
            _, (problem,) = as_runner.passed()
            assert "ALTER on the cluster" in problem.message
            assert rules_at(guarded) == closed
            following.write(ReadableDocument(link=following.name, said=statement, since_ms=1))
            assert as_runner.passed() == ([], [])
        finally:
            for deletion in admin.delete_acls(
                [AclBindingFilter(*(getattr(kept_from, name) for name in _FIELDS))]
            ).values():
                deletion.result(TERM_S)
        following.reads(is_let=True)


async def may_alter(cluster: Cluster) -> bool:
    """Whether the login of a cluster may make and delete access rules."""
    async with Client(cluster) as client:
        return Operation.ALTER in (await describe_cluster(client)).operations


def word_of(following: Following, statement: str, principal: str) -> GatewayPairDocument:
    """What a gateway says that reads at the follower as this principal."""
    return GatewayPairDocument(
        link=following.name,
        gateway="g",
        said=statement,
        by="gateway",
        state=SyncState.SYNCING,
        since_ms=1,
        out_of_sync=OutOfSync.AVAILABLE,
        principal=principal,
    )
