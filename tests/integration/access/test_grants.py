"""The rights that are generated for a link are enough, and none of them can be left out, on clusters that deny by
default.
"""

from __future__ import annotations

import asyncio
import random
import shlex
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pytest
import trustme
import yaml
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from pyspark.sql import SparkSession

from isthmus import config
from isthmus.access.grants import Grant, GrantedSide, grants_of
from isthmus.cli.clusters.acls import AclFormat, format_rules
from isthmus.fabric.fabric import Fabric, open_fabric
from isthmus.groups.positions.carrying import Standing
from isthmus.local import LocalCluster
from isthmus.local.tools import kafka_tool
from isthmus.model.cluster import Cluster, Security, Tls
from isthmus.model.configuration import Configuration
from isthmus.model.groupsettings import GroupPattern, GroupSettings
from isthmus.model.kafka.access import AccessPolicy, AccessSettings, Rule
from isthmus.model.kafka.findings import Finding, Level
from isthmus.model.kafka.rights import Resource
from isthmus.model.link import Link
from isthmus.model.links.needs import Side
from isthmus.model.mirrormaker import MirrorMakerSettings, MirrorMakerTopics, SyncsPlace
from isthmus.model.namespace import Namespace, NamespaceMap
from isthmus.model.naming import LEDGER_TOPIC
from isthmus.model.offsetscopy import OffsetsCopy
from testing.groups import consumers
from testing.patience import TERM_S, UNFENCED
from testing.records import oracle, topics
from testing.records.transactions import TransactionalProducer
from testing.runs.running import configuration_of, link_of
from testing.verbs import examine

pytestmark = pytest.mark.integration

NAME: Final = "granted.orders"
GROUP: Final = "granted.billing"
_RESOURCES: Final = {
    Resource.TOPIC: ResourceType.TOPIC,
    Resource.GROUP: ResourceType.GROUP,
    Resource.TRANSACTIONAL_ID: ResourceType.TRANSACTIONAL_ID,
    Resource.CLUSTER: ResourceType.BROKER,
}


@dataclass(frozen=True, slots=True)
class Granted:
    """A link with users of its own on both sides, the clusters, and what its users may do there."""

    link: Link
    clusters: dict[Side, LocalCluster]
    grants: tuple[Grant, ...]

    def examined(self) -> set[Finding]:
        """What doctor finds wrong with it."""
        found = asyncio.run(examine(configuration_of(self.link)))
        return {finding for finding in found if finding.level is not Level.OK}

    @contextmanager
    def without(self, grant: Grant) -> Iterator[None]:
        """Take it away for a while."""
        cluster = self.clusters[grant.side]
        change(cluster, [grant.rule], are_there=False)
        try:
            yield
        finally:
            change(cluster, [grant.rule], are_there=True)


def change(cluster: LocalCluster, rules: Iterable[Rule], *, are_there: bool) -> None:
    """Create rules or delete them, and wait until brokers tell so."""
    admin = AdminClient({"bootstrap.servers": cluster.admin_bootstrap_servers})
    parts = [
        (
            _RESOURCES[rule.resource],
            rule.name,
            ResourcePatternType[rule.pattern],
            rule.principal,
            rule.host,
            AclOperation[rule.operation],
            AclPermissionType[rule.permission],
        )
        for rule in rules
    ]
    filters = [AclBindingFilter(*each) for each in parts]
    changing = admin.create_acls([AclBinding(*each) for each in parts]) if are_there else admin.delete_acls(filters)
    for future in changing.values():
        future.result(TERM_S)
    deadline = time.monotonic() + TERM_S
    for wanted in filters:
        while bool(admin.describe_acls(wanted).result(TERM_S)) is not are_there:
            assert time.monotonic() < deadline
            time.sleep(0.02)


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    """Who makes the certificates of our users: their names are the principals."""
    return trustme.CA()


@pytest.fixture(scope="module")
def clusters(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[Side, LocalCluster]]:
    """Two clusters that deny what no rule allows."""
    file = tmp_path_factory.mktemp("authority") / "ca.pem"
    authority.cert_pem.write_to_path(file)
    with (
        LocalCluster.start(
            "strict-source", brokers=1, heap_mb=256, secure=True, client_ca_file=file, properties=UNFENCED
        ) as source,
        LocalCluster.start(
            "strict-target", brokers=1, heap_mb=256, secure=True, client_ca_file=file, properties=UNFENCED
        ) as target,
    ):
        yield {Side.SOURCE: source, Side.TARGET: target}


@pytest.fixture(scope="module")
def granted(
    clusters: dict[Side, LocalCluster], authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory
) -> Granted:
    """A link that asks for everything there is, whose users have what is generated and nothing else."""
    folder = tmp_path_factory.mktemp("users")
    ends = {side: reached(cluster, side, authority, folder) for side, cluster in clusters.items()}
    link = link_of(ends[Side.SOURCE], ends[Side.TARGET], "granted.*", name="granted")
    mm2 = MirrorMakerSettings(offset_syncs=SyncsPlace.SOURCE, checkpoints=True, heartbeats=True)
    link = replace(
        link,
        groups=GroupSettings(
            include=(GroupPattern.parse(GROUP),), delete_at_target=True, offsets_copy=OffsetsCopy.GROUPS
        ),
        access=AccessSettings(
            policy=AccessPolicy.READ_ONLY, principals=(NamespaceMap.parse("User:granted-team-", "principal"),)
        ),
        mm2=mm2,
    )
    theirs = MirrorMakerTopics(names=link.mm2_names, heartbeats=True)
    link = replace(link, topics=replace(link.topics, mirror_maker=theirs))
    grants = tuple(grant for side in Side for grant in grants_of(link, side, principal(side)).grants)
    source = clusters[Side.SOURCE]
    topics.create(source, NAME)
    topics.produce(source, NAME, topics.some(20, random.Random(1)))
    # Made by the source's own link, as MirrorMaker 2 would have it.
    topics.create(source, "heartbeats")
    topics.create(source, "__isthmus.ledger")
    consumers.commit(source, {GROUP: {(NAME, 0): 7}})
    for side, cluster in clusters.items():
        change(cluster, [grant.rule for grant in grants if grant.side is side], are_there=True)
    return Granted(link, clusters, grants)


def principal(side: Side, link: str = "granted") -> str:
    """Who a link is at a side."""
    return f"User:{link}-at-{side}"


def reached(cluster: LocalCluster, side: Side, authority: trustme.CA, folder: Path, link: str = "granted") -> Cluster:
    """A cluster, by the certificate of a link's user there."""
    user = principal(side, link).removeprefix("User:")
    issued = authority.issue_cert(user, common_name=user)
    issued.cert_chain_pems[0].write_to_path(folder / f"{user}.pem")
    issued.private_key_pem.write_to_path(folder / f"{user}.key")
    tls = Tls(
        ca_file=str(cluster.credentials.ca_file),
        certificate_file=str(folder / f"{user}.pem"),
        key_file=str(folder / f"{user}.key"),
    )
    servers = tuple(cluster.mutual_tls_bootstrap_servers.split(","))
    return Cluster(alias=str(side), bootstrap_servers=servers, security=Security(protocol="SSL", tls=tls))


def about_rights(findings: Iterable[Finding]) -> list[str]:
    """The findings that ask for a right."""
    asking = [found for found in findings if "Grant" in found.hint or "is missing" in found.hint]
    return sorted(f"{found.level}: {found.message} {found.hint}" for found in asking)


def test_before_the_first_run(granted: Granted) -> None:
    """Doctor asks for no other right, and names each right to create a topic when it is taken away."""
    sound = granted.examined()
    assert about_rights(sound) == []
    creating = [grant for grant in granted.grants if grant.rule.operation == "CREATE"]
    assert len(creating) == 7
    for grant in creating:
        with granted.without(grant):
            told = about_rights(granted.examined() - sound)
        assert any("CREATE" in each and grant.rule.name in each for each in told), (grant, told)


@pytest.fixture(scope="module")
def ran(granted: Granted, spark: SparkSession) -> Granted:
    """The link, after a run."""
    outcome = Fabric(configuration_of(granted.link), spark=spark).run(until="caught-up")
    assert outcome.exit_code == 0, outcome
    return granted


def test_they_are_enough(ran: Granted, spark: SparkSession) -> None:
    """Records, groups, configurations, access rules and MirrorMaker 2's topics: all of it runs, and can be verified."""
    fabric = Fabric(configuration_of(ran.link), spark=spark)
    verdict = fabric.verify()["granted"]
    assert verdict.equal
    assert verdict.records >= 20
    (progress,) = fabric.status()
    assert {loop.loop: loop.problem for loop in progress.loops if loop.problem is not None} == {}
    (groups,) = fabric.groups.sync()
    assert [(group.group, group.standing) for group in groups.groups] == [(GROUP, Standing.IN_STEP)]
    assert groups.notes == ()
    assert about_rights(ran.examined()) == []


def test_each_is_missed(ran: Granted) -> None:
    """Whichever is taken away, doctor names it, or that DESCRIBE which went with it, and what it is about."""
    assert not_missed(ran, (each for each in ran.grants if each.rule.operation != "CREATE")) == []


def not_missed(held: Granted, grants: Iterable[Grant]) -> list[tuple[Side, str, str, list[str]]]:
    """Those of these rights of which doctor does not name the loss, and what it says instead."""
    sound = held.examined()
    silent = []
    for grant in grants:
        with held.without(grant):
            told = about_rights(held.examined() - sound)
        subject = "the cluster" if grant.rule.resource is Resource.CLUSTER else grant.rule.name
        is_named = any(subject in each and (grant.rule.operation in each or "DESCRIBE" in each) for each in told)
        # What a pattern would match does not show any more: that is all there is to see.
        is_error = any(each.startswith("error") or "matches no topic" in each for each in told)
        if not is_named or (grant.is_required and not is_error):
            silent.append((grant.side, grant.rule.operation, grant.rule.name, told))
    return silent


def test_only_what_is_required(
    clusters: dict[Side, LocalCluster], authority: trustme.CA, tmp_path: Path, spark: SparkSession
) -> None:
    """It is enough to mirror, transactions included, and doctor has nothing worse than warnings."""
    source = clusters[Side.SOURCE]
    topics.create(source, "bare.orders")
    topics.produce(source, "bare.orders", topics.some(20, random.Random(1)))
    producer = TransactionalProducer(source, "bare")
    producer.send("bare.orders", topics.some(5, random.Random(2)))
    producer.end(commit=True)
    ends = {side: reached(cluster, side, authority, tmp_path, "bare") for side, cluster in clusters.items()}
    link = link_of(ends[Side.SOURCE], ends[Side.TARGET], "bare.*", name="bare")
    for side, cluster in clusters.items():
        grants = grants_of(link, side, principal(side, "bare"), only_required=True).grants
        assert all(grant.is_required for grant in grants)
        change(cluster, [grant.rule for grant in grants], are_there=True)
    assert [f.message for f in asyncio.run(examine(configuration_of(link))) if f.level is Level.ERROR] == []
    fabric = Fabric(configuration_of(link), spark=spark)
    assert fabric.run(until="caught-up").exit_code == 0
    verdict = fabric.verify()["bare"]
    assert (verdict.equal, verdict.records) == (True, 25)


def test_a_declared_link_is_run_and_changed(
    clusters: dict[Side, LocalCluster], authority: trustme.CA, tmp_path: Path, spark: SparkSession
) -> None:
    """By users who have what is generated for it, once an administrator has declared it. Each of the rights to
    declare something is missed.
    """
    source = clusters[Side.SOURCE]
    topics.create(source, "declared.a-orders")
    topics.produce(source, "declared.a-orders", topics.some(20, random.Random(1)))
    consumers.commit(source, {"declared.app": {("declared.a-orders", 0): 7}})
    admins = tuple(replace(topics.as_admin(cluster), alias=str(side)) for side, cluster in clusters.items())
    administrator = Fabric(Configuration(clusters=admins, links=()))
    maps = [NamespaceMap.parse("declared.a-:declared.b-"), NamespaceMap.parse("declared.", "group")]
    administrator.declarations.create("declared", source="source", target="target", maps=maps)
    link = open_fabric(administrator.configuration, declared=True).configuration.link("declared")
    grants = [each for side in Side for each in grants_of(link, side, principal(side, "declared")).grants]
    for side, cluster in clusters.items():
        change(cluster, [each.rule for each in grants if each.side is side], are_there=True)
    ends = tuple(reached(cluster, side, authority, tmp_path, "declared") for side, cluster in clusters.items())
    users = Fabric(Configuration(clusters=ends, links=()))
    after = users.declarations.update("declared", settings={"topics_interval_s": 2.0})
    assert (after.behind, dict(after.away)) == ((), {})
    fabric = open_fabric(users.configuration, spark=spark, declared=True)
    asked = about_rights(asyncio.run(examine(fabric.configuration)))
    assert [each for each in asked if each.startswith("error")] == []
    assert fabric.run(until="caught-up").exit_code == 0
    assert fabric.verify()["declared"].records == 20
    consumers.await_position(clusters[Side.TARGET], "declared.app", ("declared.b-orders", 0), 7)
    own = [each for each in grants if is_for_declaring(each)]
    assert len(own) == 6
    held = Granted(fabric.configuration.link("declared"), clusters, tuple(grants))
    assert not_missed(held, own) == []
    users.declarations.delete("declared")
    namespaces = users.cluster("target").namespaces
    for each in maps:
        namespaces.update(each.target, reserved=False)


def is_for_declaring(grant: Grant) -> bool:
    """Whether it is on what a link writes and reads to declare something, once that is there."""
    is_ledger = grant.side is Side.SOURCE and grant.rule.name == LEDGER_TOPIC and grant.rule.operation != "CREATE"
    return is_ledger or grant.rule.resource is Resource.TRANSACTIONAL_ID


def test_logins_of_a_links_own(
    clusters: dict[Side, LocalCluster], authority: trustme.CA, tmp_path: Path, spark: SparkSession
) -> None:
    """A link of the file and a declared one, each as users of its own on each side that have what is generated, beside
    a login of the cluster that may do nothing with their topics; what is declared holds names of logins, no secrets.
    """
    sections: dict[str, dict[str, Any]] = {}
    for side, cluster in clusters.items():
        ways = {user: reached(cluster, side, authority, tmp_path, user) for user in ("nobody", "filed", "said")}
        written = {
            user: {
                "bootstrap_servers": list(way.bootstrap_servers),
                "security": {
                    "tls": {
                        "ca_file": way.security.tls.ca_file,
                        "certificate_file": way.security.tls.certificate_file,
                        "key_file": way.security.tls.key_file,
                    }
                },
            }
            for user, way in ways.items()
        }
        sections[str(side)] = {**written["nobody"], "logins": {user: written[user] for user in ("filed", "said")}}
        topics.create(cluster, "filed.there")
    logins = {"source_login": "filed", "target_login": "filed"}
    link = {"name": "filed", "source": "source", "target": "target", **logins, "topics": {"include": ["filed.orders"]}}
    configuration = config.parse(yaml.safe_dump({"clusters": sections, "links": [link]}), folder=tmp_path)
    source = clusters[Side.SOURCE]
    for name in ("filed.orders", "said.orders"):
        topics.create(source, name)
        topics.produce(source, name, topics.some(20, random.Random(1)))

    administrator = Fabric(
        replace(
            configuration,
            links=(),
            clusters=tuple(
                replace(topics.as_admin(clusters[side]), alias=str(side), logins=configuration.cluster(side).logins)
                for side in Side
            ),
        )
    )
    administrator.declarations.create(
        "said",
        source="source",
        target="target",
        maps=[NamespaceMap.parse("said.:heard.")],
    )
    declared = open_fabric(administrator.configuration, declared=True).configuration.link("said")
    for user, found in (("filed", configuration.link("filed")), ("said", declared)):
        for side, cluster in clusters.items():
            rules = [each.rule for each in grants_of(found, side, principal(side, user)).grants]
            change(cluster, rules, are_there=True)
    administrator.declarations.update("said", settings={"source_login": "said", "target_login": "said"})
    declared = open_fabric(administrator.configuration, declared=True).configuration.link("said")
    assert "said-at-target" in str(declared.target.security.tls)
    for one, known in (("filed", configuration), ("said", replace(administrator.configuration, links=(declared,)))):
        asked = about_rights(asyncio.run(examine(known)))
        assert [each for each in asked if each.startswith("error")] == [], one
        fabric = Fabric(known, spark=spark)
        assert fabric.run(until="caught-up").exit_code == 0, one
        assert fabric.verify()[one].records == 20
    # The cluster's own login of the file may not even see the topics.
    assert "filed.orders" not in {each.topic for each in Fabric(configuration).cluster("target").topics().partitions}
    held = consumers_of_ledger(clusters[Side.TARGET])
    assert "target_login" in held
    assert str(tmp_path) not in held
    administrator.declarations.delete("said")
    administrator.cluster("target").namespaces.update(Namespace(kind="topic", prefix="heard."), reserved=False)


def consumers_of_ledger(cluster: LocalCluster) -> str:
    """All that the ledger holds, as any consumer reads it."""
    (seen,) = oracle.records(cluster.admin_bootstrap_servers, LEDGER_TOPIC)
    return " ".join(f"{record.key!r} {record.value!r}" for record in seen)


def test_commands_of_kafkas_own_tool(clusters: dict[Side, LocalCluster], topic: Callable[[str], str]) -> None:
    """What is printed can be run as it is, and makes the rules."""
    names, cluster = topic("printed"), clusters[Side.SOURCE]
    link = link_of(cluster.cluster(), cluster.cluster(), f"{names}.*", name=names)
    grants = grants_of(link, Side.SOURCE, "User:printed").grants
    east = Cluster(alias="east", bootstrap_servers=tuple(cluster.admin_bootstrap_servers.split(",")))
    sides = [GrantedSide(side=Side.SOURCE, cluster=east, principal="User:printed", grants=grants)]
    *comments, command = format_rules(link, sides, AclFormat.KAFKA_ACLS)
    assert all(comment.startswith("#") for comment in comments)
    tool, *arguments = shlex.split(command)
    assert tool == "kafka-acls.sh"
    made = kafka_tool("org.apache.kafka.tools.AclCommand", *arguments)
    assert made.returncode == 0, made.stderr
    change(cluster, [grant.rule for grant in grants], are_there=True)
    listed = kafka_tool(
        "org.apache.kafka.tools.AclCommand", "--list", *arguments[:2], "--principal", "User:printed"
    ).stdout
    assert listed.count("permissionType=ALLOW") == len(grants) == 2
    assert listed.count(f"name={names}., patternType=PREFIXED") == 1
