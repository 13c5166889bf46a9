"""Access rules are carried between real clusters with authorizers, and nothing of others is touched."""

from __future__ import annotations

import asyncio
import random
import subprocess
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from confluent_kafka.admin import AclOperation, ResourceType
from kafka.protocol.admin import DescribeClientQuotasRequest
from kafka.protocol.admin.acl import DescribeAclsRequest
from pyspark.sql import SparkSession

from isthmus.access.loop import AccessLoop
from isthmus.access.quotas import QuotasLoop
from isthmus.configs.loop import ConfigsLoop
from isthmus.configs.properties import PropertyChange
from isthmus.errors import BrokerRefused, ClusterError, NotAuthorized, Unreachable
from isthmus.fabric.fabric import Fabric, open_fabric
from isthmus.kafka.admin.access import create_rules, delete_rules, describe_rules
from isthmus.kafka.admin.quotas import alter_quotas, user_quotas
from isthmus.kafka.client import Client
from isthmus.ledger.documents.access import AccessDocument
from isthmus.ledger.documents.document import Document
from isthmus.ledger.log import append_once
from isthmus.ledger.records import Deletion
from isthmus.local import LocalCluster
from isthmus.local.jvm import jvm_for
from isthmus.local.tools import kafka_tool
from isthmus.loops.loop import LinkView
from isthmus.model.cluster import Cluster
from isthmus.model.configuration import Configuration
from isthmus.model.groupsettings import GroupPattern, GroupSettings
from isthmus.model.kafka.access import AccessPolicy, AccessSettings, PermissionType, PrincipalPattern, Rule, RulePattern
from isthmus.model.kafka.findings import Level
from isthmus.model.kafka.quotas import QuotaKey
from isthmus.model.kafka.rights import Resource
from isthmus.model.lane import LaneState
from isthmus.model.link import Link
from isthmus.model.loop import Change, LoopProgress, LoopState
from isthmus.model.namespace import NamespaceMap
from isthmus.model.naming import PrefixNaming, SourceTopic, TargetTopic
from isthmus.topics.plan import Action, LinkPlan, TopicPlan
from testing.brokers.acls import CLUSTER, denied
from testing.patience import TERM_S
from testing.records import topics
from testing.records.topics import as_admin
from testing.runs.running import configuration_of, ends, link_of, running
from testing.verbs import Promoter, examine

pytestmark = pytest.mark.integration

Namer = Callable[[str], str]
OTHERS = (PrincipalPattern.parse("User:isthmus"),)
"""A secured cluster has rules for this one, about all topics and groups."""


def admin(cluster: LocalCluster) -> Cluster:
    """How a super user reaches it."""
    return replace(as_admin(cluster), alias=cluster.name)


def rule(name: str, operation: str = "READ", *, principal: str = "User:alice", **fields: Any) -> Rule:
    """An ALLOW of a topic, unless said otherwise."""
    given: dict[str, Any] = {
        "resource": Resource.TOPIC,
        "name": name,
        "pattern": RulePattern.LITERAL,
        "principal": principal,
        "host": "*",
        "operation": operation,
        "permission": PermissionType.ALLOW,
    }
    return Rule(**{**given, **fields})


@dataclass(slots=True)
class Side:
    """A link's loop beside a memory that is a ledger's, without a run around it. With `dies_after` so many writes the
    memory takes no more, as if the process had been killed. What `is_kept` is in the target's ledger for other links.
    """

    link: Link
    source: Client
    target: Client
    topic: str
    documents: dict[str, Document] = field(default_factory=dict)
    loop: AccessLoop = field(default_factory=AccessLoop)
    dies_after: int | None = None
    is_kept: bool = False

    async def remember(self, *changes: Document | Deletion) -> None:
        if self.dies_after is not None:
            self.dies_after -= 1
            if self.dies_after < 0:
                raise Unreachable("killed", cluster="target")
        if self.is_kept:
            await append_once(self.target, changes, replication_factor=None)
        for change in changes:
            if isinstance(change, Deletion):
                self.documents.pop(change.key, None)
            else:
                self.documents[change.key] = change

    @property
    def view(self) -> LinkView:
        target = self.link.topics.target_of(SourceTopic(self.topic))
        assert target is not None
        plan = TopicPlan(topic=target, source_topic=SourceTopic(self.topic), action=Action.COPY)
        return LinkView(
            link=self.link,
            source=self.source,
            target=self.target,
            plan=LinkPlan(link=self.link.name, source="east", target="west", topics=(plan,)),
            documents=self.documents,
            remember=self.remember,
        )

    async def run(self) -> list[Change]:
        """One pass; what was left."""
        return list(await self.loop.apply(self.view, await self.loop.look(self.view)))

    async def until(self, *wanted: Rule) -> None:
        """Make passes until the target has just these rules of the principals we use; brokers hear of changes late."""
        deadline = time.monotonic() + TERM_S
        while (found := await self.found(self.target)) != set(wanted):
            left = await self.run()
            assert time.monotonic() < deadline, (found, left)
            await asyncio.sleep(0.02)

    async def found(self, client: Client) -> set[Rule]:
        every = {*await describe_rules(client, Resource.TOPIC), *await describe_rules(client, Resource.GROUP)}
        return {each for each in every if self.topic in each.name}

    async def make(self, client: Client, *rules: Rule) -> None:
        """Create rules, and wait until brokers tell them."""
        assert not (await create_rules(client, rules)).errors
        async with asyncio.timeout(TERM_S):
            while not set(rules) <= await self.found(client):
                await asyncio.sleep(0.02)

    async def drop(self, client: Client, *rules: Rule) -> None:
        """Delete rules, and wait until brokers tell them no more."""
        assert not (await delete_rules(client, rules)).errors
        async with asyncio.timeout(30.0):
            while set(rules) & await self.found(client):
                await asyncio.sleep(0.02)


class Behind(Client):
    """Meets a broker that has not heard of any rule and any quota yet, while it `is_behind`; the others have."""

    is_behind = False

    async def any(self, request: Any, **more: Any) -> Any:
        """The answer of that broker."""
        answer = await super().any(request, **more)
        if self.is_behind and isinstance(request, DescribeAclsRequest):
            answer.resources = []
        if self.is_behind and isinstance(request, DescribeClientQuotasRequest):
            answer.entries = []
        return answer


@asynccontextmanager
async def beside(source: Cluster, target: Cluster, topic: str, policy: AccessPolicy) -> AsyncIterator[Side]:
    """The loop of a link of one topic, under another name at the target, and of groups that begin with its name."""
    link = link_of(source, target, topic, name=topic)
    link = replace(
        link,
        topics=replace(link.topics, naming=PrefixNaming(target_prefix="east.")),
        groups=GroupSettings(include=(GroupPattern.parse(f"{topic}*"),)),
        access=AccessSettings(policy=policy, exclude_principals=OTHERS, interval_s=0.2),
    )
    async with Client(source) as at_source, Client(target) as at_target:
        yield Side(link, at_source, at_target, topic)


def quotas(cluster: LocalCluster, *changes: str) -> dict[str, str]:
    """Change quotas of a user by Kafka's own tool; without changes those of all users, a line each."""
    about = ("--bootstrap-server", cluster.admin_bootstrap_servers, "--entity-type", "users")
    jvm = jvm_for("zk-3.9.1")
    command = jvm.command("kafka.admin.ConfigCommand", *about, *(changes or ("--describe",)), heap_mb=128)
    shown = subprocess.run(command, env=jvm.environment, capture_output=True, text=True, check=True).stdout
    return {line.split("'")[1]: line for line in shown.splitlines() if "'" in line}


def foreseen_quotas(clusters: Configuration) -> dict[tuple[str, str], tuple[str | None, bool]]:
    """What a plan says of quotas that differ: what they are to be, and whether they are to be so."""
    (planned,) = open_fabric(clusters, declared=True).plan().links
    ours = (change for change in planned.changes if change.loop == "quotas")
    return {(each.subject, each.setting): (each.after, each.problem is None) for each in ours}


def test_principals_that_are_attached_follow(
    secured: LocalCluster, guarded: LocalCluster, topic: Namer, spark: SparkSession
) -> None:
    """The access rules and quotas of a namespace of principals come to the target under its names, by a declared link
    and by no other setting; those of nobody else do, and after a detachment they stay.
    """
    stem = topic("principals")
    name = f"{stem}-orders"
    topics.create(secured, name)
    topics.produce(secured, name, topics.some(5, random.Random(1)))
    reading, bobs = rule(name, principal=f"User:{stem}-ann"), rule(name, principal="User:bob")
    clusters = Configuration(clusters=(admin(secured), admin(guarded)), links=())
    maps = [
        NamespaceMap.parse(f"{stem}-:east-{stem}-"),
        NamespaceMap.parse(f"User:{stem}-:User:east-{stem}-", "principal"),
    ]
    declarations = Fabric(clusters).declarations
    declarations.create(stem, source=secured.name, target=guarded.name, maps=maps)

    async def prepare() -> None:
        async with Client(admin(secured)) as source, Client(admin(guarded)) as target:
            link = link_of(admin(secured), admin(guarded), name, name=stem)
            await Side(link, source, target, name).make(source, reading, bobs)

    def listed() -> str:
        arguments = ("--bootstrap-server", guarded.admin_bootstrap_servers, "--list", "--topic", f"east-{name}")
        return kafka_tool("org.apache.kafka.tools.AclCommand", *arguments).stdout

    asyncio.run(prepare())
    ann, ben, there = f"{stem}-ann", f"{stem}-ben", f"user east-{stem}-ann"
    quotas(secured, "--entity-name", ben, "--alter", "--add-config", "SCRAM-SHA-256=[password=secret-of-ben]")
    told = asyncio.run(examine(open_fabric(clusters, declared=True).configuration))
    (password,) = (each.message for each in told if each.check == "passwords")
    assert password.endswith(f"with a password of SCRAM cannot log in at guarded: east-{ben}")
    for cluster, user, given in (
        (secured, ann, "producer_byte_rate=1048576,request_percentage=12.5"),
        (secured, ben, "consumer_byte_rate=2000"),
        (guarded, f"east-{ben}", "consumer_byte_rate=3000"),
    ):
        quotas(cluster, "--entity-name", user, "--alter", "--add-config", given)
    assert foreseen_quotas(clusters) == {
        (there, "producer_byte_rate"): ("1048576", True),
        (there, "request_percentage"): ("12.5", True),
        (f"user east-{ben}", "consumer_byte_rate"): ("2000", False),
    }
    assert open_fabric(clusters, spark=spark, declared=True).run(until="caught-up").exit_code == 0
    shown = listed()
    assert f"(principal=User:east-{stem}-ann, host=*, operation=READ, permissionType=ALLOW)" in shown
    assert "User:bob" not in shown
    every = quotas(guarded)
    assert "producer_byte_rate=1048576.0" in every[f"east-{ann}"]
    assert "request_percentage=12.5" in every[f"east-{ann}"]
    quotas(secured, "--entity-name", ann, "--alter", "--delete-config", "request_percentage")
    assert open_fabric(clusters, spark=spark, declared=True).run(until="caught-up").exit_code == 0
    assert foreseen_quotas(clusters) == {(f"user east-{ben}", "consumer_byte_rate"): ("2000", False)}
    asyncio.run(Promoter(configuration=clusters, name=stem, maps=(maps[1],)).detach())
    assert open_fabric(clusters, spark=spark, declared=True).run(until="caught-up").exit_code == 0
    assert f"User:east-{stem}-ann" in listed()
    # What went at the source went at the target, and what an operator has set there stays.
    every = quotas(guarded)
    assert "producer_byte_rate=1048576.0" in every[f"east-{ann}"]
    assert "request_percentage" not in every[f"east-{ann}"]
    assert "consumer_byte_rate=3000.0" in every[f"east-{ben}"]
    declarations.delete(stem)
    namespaces = Fabric(clusters).cluster(guarded.name).namespaces
    assert namespaces.describe(maps[1].target).is_reserved
    for each in maps:
        namespaces.update(each.target, reserved=False)


def test_rules_are_shown_made_and_taken_back(
    secured: LocalCluster, guarded: LocalCluster, topic: Namer, spark: SparkSession
) -> None:
    """By plan and run: Kafka's own tool sees what was made, and still sees what an operator made when ours has gone."""
    name = topic("access")
    topics.create(secured, name)
    topics.produce(secured, name, topics.some(5, random.Random(1)))
    link = link_of(admin(secured), admin(guarded), name, name=name)
    link = replace(link, access=AccessSettings(policy=AccessPolicy.READ_ONLY, interval_s=0.2))
    wide = rule(name[:-2], "ALL", principal="User:bob", pattern=RulePattern.PREFIXED)
    reading, writing, theirs = rule(name), rule(name, "WRITE"), rule(name, principal="User:operator")

    async def prepare(*, are_there: bool) -> None:
        async with Client(admin(secured)) as source, Client(admin(guarded)) as target:
            side = Side(link, source, target, name[:-2])
            if are_there:
                await side.make(source, reading, writing, wide)
                await side.make(target, theirs)
            else:
                await side.drop(source, reading, wide)

    def listed() -> str:
        arguments = ("--bootstrap-server", guarded.admin_bootstrap_servers, "--list", "--topic", name)
        return kafka_tool("org.apache.kafka.tools.AclCommand", *arguments).stdout

    asyncio.run(prepare(are_there=True))
    fabric = Fabric(configuration_of(link), spark=spark)
    (planned,) = fabric.plan().links
    changes = {(c.subject, c.setting, c.before, c.after) for c in planned.loop_changes if "isthmus" not in c.setting}
    assert changes == {
        (f"topic {name}", "READ by User:alice", None, "ALLOW"),
        (f"topic {name}", "READ by User:bob", None, "ALLOW"),
    }
    assert "User:alice" not in listed()
    assert fabric.run(until="caught-up").exit_code == 0
    shown = listed()
    assert "(principal=User:alice, host=*, operation=READ, permissionType=ALLOW)" in shown
    assert "(principal=User:bob, host=*, operation=READ, permissionType=ALLOW)" in shown
    assert "operation=WRITE" not in shown
    (progress,) = fabric.status()
    found = {loop.loop: (loop.state, loop.problem) for loop in progress.loops}
    assert found["access"] == (LoopState.STOPPED, None), "it ended well, and nobody runs it now"

    asyncio.run(prepare(are_there=False))
    assert fabric.run(until="caught-up").exit_code == 0
    shown = listed()
    assert "User:operator" in shown
    assert "User:alice" not in shown
    assert "User:bob" not in shown


def test_full_carries_topics_and_groups(secured: LocalCluster, guarded: LocalCluster, topic: Namer) -> None:
    """Under the names that topics have at the target, denials included; later changes are followed. What a rule covers
    at the target before it is there nobody may use whom a wider DENY of the source keeps out.
    """
    name = topic("full")
    writing = rule(name, "WRITE", host="10.0.0.1")
    denial = rule(name, "DELETE", permission=PermissionType.DENY)
    group = rule(f"{name}-g", resource=Resource.GROUP, pattern=RulePattern.PREFIXED, principal="User:*")
    unwanted = replace(group, principal="User:bob", permission=PermissionType.DENY)
    wide = replace(unwanted, name=name[:-1])

    async def scenario() -> None:
        async with beside(admin(secured), admin(guarded), name, AccessPolicy.FULL) as side:
            assert not (await create_rules(side.source, [wide])).errors
            await side.make(side.source, writing, denial, group)
            expected = [replace(each, name=f"east.{name}") for each in (writing, denial)]
            await side.until(*expected, group, unwanted)
            assert await side.run() == []
            await side.drop(side.source, denial, group)
            await side.until(expected[0], unwanted)
            assert not (await delete_rules(side.source, [wide])).errors
            await side.until(expected[0])
            assert await side.run() == []
            (document,) = side.documents.values()
            assert isinstance(document, AccessDocument)
            assert (document.rule, document.origin, document.is_certain) == (expected[0], name, True)

    asyncio.run(scenario())


def test_what_was_there_is_not_claimed(secured: LocalCluster, guarded: LocalCluster, topic: Namer) -> None:
    """A rule that an operator made before outlives the source's."""
    name = topic("claimed")

    async def scenario() -> None:
        async with beside(admin(secured), admin(guarded), name, AccessPolicy.FULL) as side:
            theirs = rule(f"east.{name}")
            await side.make(side.target, theirs)
            await side.make(side.source, rule(name))
            assert await side.run() == []
            await side.drop(side.source, rule(name))
            assert await side.run() == []
            assert await side.found(side.target) == {theirs}
            assert side.documents == {}

    asyncio.run(scenario())


def test_a_rule_of_two_links(secured: LocalCluster, guarded: LocalCluster, topic: Namer) -> None:
    """It stays as long as one of them carries it, and goes with the last, whoever made it."""
    name = topic("shared")
    made = rule(f"east.{name}")

    async def scenario() -> None:
        async with beside(admin(secured), admin(guarded), name, AccessPolicy.FULL) as first:
            sides = [
                replace(first, link=replace(first.link, name=f"{name}-{each}"), documents={}, loop=AccessLoop())
                for each in "ab"
            ]
            for side in sides:
                side.is_kept = True
            one, other = sides
            await one.make(one.source, rule(name))
            await one.until(made)
            assert await other.run() == []
            assert len(other.documents) == 1
            link = one.link
            without = (*OTHERS, PrincipalPattern.parse("User:alice"))
            one.link = replace(link, access=replace(link.access, exclude_principals=without))
            for _ in range(3):
                assert await one.run() == []
            assert await one.found(one.target) == {made}
            (told,) = await one.loop.look(one.view)
            assert told.problem is not None
            assert f"link {other.link.name} has made it as well" in told.problem.message
            await other.drop(other.source, rule(name))
            await other.until()
            assert other.documents == {}
            for _ in range(2):
                assert await one.run() == []
            assert one.documents == {}

    asyncio.run(scenario())


def test_a_broker_that_is_behind_takes_nothing_away(secured: LocalCluster, guarded: LocalCluster, topic: Namer) -> None:
    """A rule or a quota is taken back at the target once no broker of the source knows it any more: one that has not
    heard of it yet is no reason to take rights away, or to let those in whom a DENY keeps out.
    """
    name = topic("behind")
    reading, denying = rule(name), rule(name, principal="User:bob", permission=PermissionType.DENY)
    there = [replace(each, name=f"east.{name}") for each in (reading, denying)]
    maps = (NamespaceMap.parse(f"User:{name}-:User:east-{name}-", "principal"),)
    limit = QuotaKey(f"{name}-ann", None, "producer_byte_rate")

    async def scenario() -> None:
        async with beside(admin(secured), admin(guarded), name, AccessPolicy.FULL) as side:
            await side.make(side.source, reading, denying)
            await side.until(*there)
            access = replace(side.link.access, principals=maps)
            limits, view = QuotasLoop(), replace(side.view, link=replace(side.link, access=access))

            async def limited(value: float | None) -> None:
                """Make passes until the target has that quota, or none."""
                async with asyncio.timeout(TERM_S):
                    while (await user_quotas(side.target)).get(limit._replace(user=f"east-{name}-ann")) != value:
                        await limits.apply(view, await limits.look(view))
                        await asyncio.sleep(0.02)

            await alter_quotas(side.source, {limit: 1e6})
            await limited(1e6)
            async with Behind(admin(secured)) as behind:
                behind.is_behind, side.source, view = True, behind, replace(view, source=behind)
                for _ in range(3):
                    assert not [each for each in await side.loop.look(side.view) if each.after is None]
                    assert not [each for each in await limits.look(view) if each.after is None]
                assert not await side.run()
                behind.is_behind = False
                await side.drop(side.source, reading)
                await side.until(there[1])
                await alter_quotas(side.source, {limit: None})
                await limited(None)
                await side.drop(side.source, denying)
                await side.until()

    asyncio.run(scenario())


def test_a_run_that_was_killed_in_the_middle(secured: LocalCluster, guarded: LocalCluster, topic: Namer) -> None:
    """Between two writes of the ledger: the next run says that it does not know, and deletes nothing. The run that was
    only cut off from the ledger for a moment knows what it did.
    """
    name = topic("killed")
    made = rule(f"east.{name}")

    async def scenario() -> None:
        async with beside(admin(secured), admin(guarded), name, AccessPolicy.FULL) as side:
            await side.make(side.source, rule(name))
            side.dies_after = 1
            with pytest.raises(ClusterError):
                await side.run()
            side.dies_after = None
            await side.make(side.target, made)
            lasting, killed = side.loop, side.documents.copy()
            await side.drop(side.source, rule(name))
            side.loop = AccessLoop()
            (left,) = await side.run()
            assert left.problem is not None
            assert "is not known" in left.problem.message
            assert await side.found(side.target) == {made}
            side.documents, side.loop = killed, lasting
            await side.until()
            assert side.documents == {}

    asyncio.run(scenario())


@pytest.mark.parametrize("bare", ["source", "target"])
def test_a_cluster_without_an_authorizer(secured: LocalCluster, east: LocalCluster, topic: Namer, bare: str) -> None:
    """It is told which one has none, and what to do; the plan tells it without hiding its topics."""
    name = topic("bare")
    ends = (east.cluster(), admin(secured)) if bare == "source" else (admin(secured), east.cluster())

    async def scenario() -> None:
        async with beside(*ends, name, AccessPolicy.FULL) as side:
            with pytest.raises(BrokerRefused) as refused:
                await side.run()
        assert "has no authorizer" in refused.value.message
        assert "access.policy: off" in refused.value.hint

    asyncio.run(scenario())
    topics.create(east if bare == "source" else secured, name)
    link = replace(link_of(*ends, name, name=name), access=AccessSettings(policy=AccessPolicy.FULL))
    (planned,) = Fabric(configuration_of(link)).plan().links
    assert [plan.topic for plan in planned.topics] == [TargetTopic(name)]
    (change,) = planned.loop_changes
    assert change.problem is not None
    assert "has no authorizer" in change.problem.message


def test_records_come_where_access_rules_cannot(
    secured: LocalCluster, east: LocalCluster, topic: Namer, spark: SparkSession
) -> None:
    """Where either side has no authorizer access rules are IN_ERROR with the reason, and all else goes on beside."""
    ways = [(east, secured, topic("unruled-source")), (secured, east, topic("unruled-target"))]
    links = []
    for source, target, name in ways:
        topics.create(source, name)
        topics.produce(source, name, topics.some(10, random.Random(1)))
        link = link_of(admin(source), admin(target), name, name=name)
        links.append(replace(link, access=AccessSettings(policy=AccessPolicy.FULL, interval_s=0.2)))

    async def scenario() -> None:
        async with running(configuration_of(*links), spark) as run:

            def rules() -> list[LoopProgress]:
                return [loop for link in run.links for loop in link.loops if loop.loop == AccessLoop.name]

            async def are_copied(count: int) -> bool:
                return [await ends(target, name) for _, target, name in ways] == [[count]] * 2

            await run.until(lambda: [loop.state for loop in rules()] == [LoopState.IN_ERROR] * 2)
            problems = [loop.problem for loop in rules()]
            assert all(problem is not None and "has no authorizer" in problem.message for problem in problems)
            await run.until(lambda: are_copied(10))
            for source, _, name in ways:
                await asyncio.to_thread(topics.produce, source, name, topics.some(10, random.Random(2)))
            await run.until(lambda: are_copied(20))
            await run.until(lambda: [loop.state for loop in rules()] == [LoopState.IN_ERROR] * 2)
            await run.until(lambda: {run.state_of(name) for _, _, name in ways} == {LaneState.ACTIVE})

    asyncio.run(scenario())


def test_rights_that_are_missing_are_named(secured: LocalCluster, guarded: LocalCluster, topic: Namer) -> None:
    """Of listing rules as of creating them: on which cluster, and what to grant."""
    name = topic("rights")

    async def scenario() -> None:
        async with beside(secured.cluster(), guarded.cluster(), name, AccessPolicy.READ_ONLY) as side:
            async with Client(admin(secured)) as super_user:
                await side.make(super_user, rule(name))
            with denied(secured, *CLUSTER, AclOperation.DESCRIBE), pytest.raises(NotAuthorized) as unseen:
                await side.run()
            assert unseen.value.hint == f"Grant DESCRIBE on the cluster to the principal of {side.link.source.alias}."
            with denied(guarded, *CLUSTER, AclOperation.ALTER):
                left = await side.run()
            (mine,) = [change for change in left if change.setting == "READ by User:alice"]
            assert mine.problem is not None
            assert mine.problem.hint == f"Grant ALTER on the cluster to the principal of {side.link.target.alias}."
            assert side.documents == {}
            await side.run()
            assert rule(f"east.{name}") in {d.rule for d in AccessDocument.find_all(side.documents.values())}

    asyncio.run(scenario())


def test_doctor_tells_whether_rules_can_be_carried(
    secured: LocalCluster, guarded: LocalCluster, east: LocalCluster, topic: Namer
) -> None:
    """It names what is missing on either side, and says nothing of a link that carries none."""
    name = topic("examined")
    topics.create(secured, name)
    link = link_of(secured.cluster(), guarded.cluster(), name, name=name)
    full = AccessSettings(policy=AccessPolicy.FULL)

    def told(link: Link) -> list[tuple[Level, str]]:
        found = asyncio.run(examine(configuration_of(link)))
        return [(finding.level, finding.hint) for finding in found if finding.check == "access rules"]

    assert told(link) == []
    assert told(replace(link, access=full)) == [(Level.OK, "")]
    with denied(guarded, *CLUSTER, AclOperation.ALTER):
        assert told(replace(link, access=full)) == [
            (Level.ERROR, "Grant ALTER on the cluster to the principal of guarded.")
        ]
    ((level, hint),) = told(replace(link, access=full, target=east.cluster()))
    assert level is Level.ERROR
    assert "access.policy: off" in hint


def test_a_configuration_that_may_not_be_set(guarded: LocalCluster, topic: Namer) -> None:
    """What the loop of configurations may not do is told with the right that is missing."""
    name = topic("unaltered")
    topics.create(guarded, name)
    change = PropertyChange(
        loop="configs", subject=f"topic {name}", setting="retention.ms", before="-1", after="5", topic=TargetTopic(name)
    )

    async def scenario() -> None:
        async with beside(guarded.cluster(), guarded.cluster(), name, AccessPolicy.OFF) as side:
            (left,) = await ConfigsLoop().apply(side.view, [change])
        assert left.problem is not None
        assert left.problem.hint == f"Grant ALTER_CONFIGS on topic {name} to the principal of guarded."

    with denied(guarded, ResourceType.TOPIC, name, AclOperation.ALTER_CONFIGS):
        asyncio.run(scenario())
