"""`doctor` finds what is missing on real clusters, before anything is written."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka.admin import AclOperation, ResourceType
from kafka.protocol.admin import AlterClientQuotasRequest

from isthmus.fabric.fabric import Administration, Fabric
from isthmus.kafka.client import Client
from isthmus.ledger.topic import LEDGER_TOPIC, ensure_topic
from isthmus.local import LocalCluster
from isthmus.local.probe import ask
from isthmus.model.cluster import Cluster, Security, Tls
from isthmus.model.kafka.findings import Finding, Level
from isthmus.model.kafka.transactions import TransactionState
from testing.brokers.acls import CLUSTER, denied, deny
from testing.brokers.hanging import leave_hanging
from testing.patience import TERM_S
from testing.records import topics
from testing.records.transactions import TransactionalProducer
from testing.runs.running import configuration_of, link_of
from testing.verbs import examine

pytestmark = pytest.mark.integration

TopicNamer = Callable[[str], str]


def examined(source: Cluster, target: Cluster, *patterns: str) -> list[Finding]:
    """What is found about a link."""
    return asyncio.run(examine(configuration_of(link_of(source, target, *patterns))))


def advice(findings: list[Finding]) -> str:
    """All that is advised."""
    return "\n".join(finding.hint for finding in findings)


def errors(findings: list[Finding]) -> list[str]:
    """The messages of what cannot work."""
    return [finding.message for finding in findings if finding.level is Level.ERROR]


def test_all_is_well(east: LocalCluster, secured: LocalCluster, topic: TopicNamer) -> None:
    """With the rights a link needs, on clusters as they come, nothing is wrong."""
    name = topic("well")
    topics.create(east, name)
    findings = examined(east.cluster(), secured.cluster(), name)
    assert errors(findings) == []
    told = {finding.check: finding.message for finding in findings if finding.level is Level.OK}
    assert {"java", "spark", "clock", "version", "reachability", "topics"} <= told.keys()
    assert told["version"] == "the brokers offer what Kafka 4.4 offers"
    assert "controller's clock" in told["clock"]


def test_a_ledger_that_forgets_is_told(east: LocalCluster, west: LocalCluster, topic: TopicNamer) -> None:
    """Doctor and plan refuse it, and name the command that mends it."""
    name = topic("forgotten")
    topics.create(east, name)
    configuration = configuration_of(link_of(east.cluster(), west.cluster(), name))

    async def ensure() -> None:
        async with Client(west.cluster()) as client:
            await ensure_topic(client)

    asyncio.run(ensure())
    topics.configure(west, LEDGER_TOPIC, cleanup_policy="delete")
    try:
        deadline = time.monotonic() + TERM_S
        # The broker hears of it a moment later.
        while not (
            found := [each for each in examined(east.cluster(), west.cluster(), name) if each.check == "ledger"]
        ):
            assert time.monotonic() < deadline
        with Fabric(configuration) as fabric:
            (plan,) = fabric.plan().links
    finally:
        topics.configure(west, LEDGER_TOPIC, cleanup_policy="compact")
    assert [each.level for each in found] == [Level.ERROR]
    assert "--add-config cleanup.policy=compact" in found[0].hint
    assert plan.problem is not None
    assert plan.problem.hint == found[0].hint


def test_quotas_that_count_are_told(east: LocalCluster, west: LocalCluster, topic: TopicNamer) -> None:
    """Of the client id that the link has at each side: what it may read at the source and write at the target."""
    name = topic("bounded")
    topics.create(east, name)
    entry = AlterClientQuotasRequest.EntryData

    def limit(cluster: LocalCluster, key: str, *, remove: bool = False) -> None:
        client = entry(
            entity=[entry.EntityData(entity_type="client-id", entity_name=name)],
            ops=[entry.OpData(key=key, value=0.0 if remove else 123456.0, remove=remove)],
        )
        port = int(cluster.admin_bootstrap_servers.rpartition(":")[2])
        answer = ask(port, AlterClientQuotasRequest(entries=[client], validate_only=False), cluster=cluster.name)
        assert [each.error_code for each in answer.entries] == [0]

    limited = ((east, "consumer_byte_rate"), (west, "producer_byte_rate"))
    for cluster, key in limited:
        limit(cluster, key)
    source, target = (replace(cluster.cluster(), client_id=name) for cluster, _ in limited)
    deadline = time.monotonic() + TERM_S
    told: list[str] = []
    try:
        # A broker hears of a quota after the controller.
        while len(told) < len(limited) and time.monotonic() < deadline:
            told = [each.message for each in examined(source, target, name) if each.check == "quotas"]
    finally:
        for cluster, key in limited:
            limit(cluster, key, remove=True)
    assert told == [
        f"{cluster.cluster().alias} allows client {name} 123,456 bytes/s ({key}), on each broker"
        for cluster, key in limited
    ]


def test_missing_rights_at_the_source(secured: LocalCluster, west: LocalCluster, topic: TopicNamer) -> None:
    """Each right that is missing is named with its topics and what it is needed for."""
    stem = topic("source")
    for name in ("a", "b", "c"):
        topics.create(secured, f"{stem}.{name}")
    deny(secured, ResourceType.TOPIC, f"{stem}.a", AclOperation.READ)
    deny(secured, ResourceType.TOPIC, f"{stem}.b", AclOperation.DESCRIBE_CONFIGS)
    findings = examined(secured.cluster(), west.cluster(), f"{stem}.*")
    told = errors(findings)
    assert any(f"READ is missing at secured on {stem}.a: needed to copy" in message for message in told)
    assert any("describing the configuration" in message and f"{stem}.b" in message for message in told)
    assert not any(f"{stem}.c" in message for message in told)
    for right, name in (("READ", "a"), ("DESCRIBE_CONFIGS", "b")):
        assert f"Grant {right} on topic {stem}.{name} to the principal of secured." in advice(findings)


def test_missing_rights_at_the_target(east: LocalCluster, secured: LocalCluster, topic: TopicNamer) -> None:
    """Rights on topics that are there are read; the right to create one is tried without creating it."""
    there, missing = topic("there"), topic("missing")
    for name in (there, missing):
        topics.create(east, name)
    topics.create(secured, there)
    deny(secured, ResourceType.TOPIC, there, AclOperation.WRITE, AclOperation.ALTER)
    deny(secured, ResourceType.TOPIC, missing, AclOperation.CREATE)
    findings = examined(east.cluster(), secured.cluster(), there, missing)
    told = errors(findings)
    assert any(f"WRITE is missing at secured on {there}" in message for message in told)
    assert any(f"creating topic {missing}" in message for message in told)
    warned = [finding.message for finding in findings if finding.level is Level.WARN]
    assert any(f"ALTER is missing at secured on {there}: needed to add partitions" in m for m in warned)
    for right, name in (("WRITE", there), ("ALTER", there), ("CREATE", missing)):
        assert f"Grant {right} on topic {name} to the principal of secured." in advice(findings)


@pytest.mark.parametrize("operation", [AclOperation.DESCRIBE, AclOperation.WRITE])
def test_missing_rights_on_the_transactional_id(
    east: LocalCluster, secured: LocalCluster, operation: AclOperation
) -> None:
    """The ledger is written in transactions: whether we may is tried with a transaction that nobody has."""
    name = "isthmus.east-west.controller"
    with denied(secured, ResourceType.TRANSACTIONAL_ID, name, operation):
        findings = examined(east.cluster(), secured.cluster(), "orders")
    (found,) = [finding for finding in findings if finding.check == "ledger"]
    right = f"{operation.name} on transactional id {name}"
    assert f"{right} is missing" in found.message
    assert found.hint == f"Grant {right} to the principal of secured."


def test_missing_rights_on_the_cluster(east: LocalCluster, secured: LocalCluster) -> None:
    """What they are needed for is told, and which they are."""
    with denied(secured, *CLUSTER, AclOperation.ALTER, AclOperation.DESCRIBE):
        findings = examined(east.cluster(), secured.cluster(), "orders")
    for right in ("ALTER", "DESCRIBE"):
        assert f"Grant {right} on the cluster to the principal of secured." in advice(findings)


def test_cluster_that_does_not_answer(west: LocalCluster) -> None:
    """A cluster that is away is an error of its own, and the links that need it are left out."""
    nowhere = Cluster(alias="nowhere", bootstrap_servers=("127.0.0.1:1",))
    findings = examined(nowhere, west.cluster(), "orders")
    assert [f.subject for f in findings if f.level is Level.ERROR] == ["nowhere"]
    assert not any(f.subject == "east-west" for f in findings)


def test_same_cluster_on_both_sides(east: LocalCluster) -> None:
    """A link of a cluster with itself is found by the cluster's id, whatever the aliases."""
    twin = Cluster(alias="twin", bootstrap_servers=east.cluster().bootstrap_servers)
    (message,) = errors(examined(east.cluster(), twin, "orders"))
    assert message == f"east and twin are the same cluster ({east.cluster_id})"


def test_a_missing_certificate_is_a_finding_of_its_cluster(east: LocalCluster, tmp_path: Path) -> None:
    """Field, file and cluster are named, and everything else is examined."""
    security = Security(protocol="SSL", tls=Tls(ca_file=str(tmp_path / "ca.pem")))
    broken = Cluster(alias="broken", bootstrap_servers=east.cluster().bootstrap_servers, security=security)
    findings = examined(broken, east.cluster(), "orders")
    (found,) = [finding for finding in findings if finding.level is Level.ERROR]
    assert (found.subject, found.check) == ("broken", "certificates")
    file = tmp_path / "ca.pem"
    reason = "No such file or directory"
    assert found.message == f"clusters.broken.security.tls.ca_file names {file}, which cannot be read: {reason}"
    assert any(finding.check == "reachability" and finding.subject == "east" for finding in findings)


def test_state_of_the_clusters_is_told(east: LocalCluster, west: LocalCluster, topic: TopicNamer) -> None:
    """Controllers are examined, and topics of a link that cannot take what is sent to them are named."""
    name, other = topic("brittle"), topic("other")
    for cluster in (east, west):
        topics.create(cluster, name, min_insync_replicas=2)
        topics.create(cluster, other, min_insync_replicas=2)
    findings = examined(east.cluster(), west.cluster(), name)
    told = {(f.subject, f.check): f for f in findings}
    assert told["east", "quorum"].level is Level.OK
    for alias in ("east", "west"):
        finding = told[f"{alias}/{name}", "fewer-replicas-than-min-isr"]
        assert (finding.level, "min.insync.replicas is 2" in finding.message) == (Level.WARN, True)
    assert not any(other in f.subject for f in findings)


def test_transaction_that_holds_the_mirror_for_ever_is_told(
    east: LocalCluster, west: LocalCluster, topic: TopicNamer
) -> None:
    """A hanging transaction at the source is an error, with who it is and how to end it."""
    name = topic("held")
    topics.create(east, name)
    producer_id = leave_hanging(east, name, 3)
    findings = examined(east.cluster(), west.cluster(), name)
    (finding,) = [f for f in findings if f.check == "hanging transaction"]
    assert (finding.level, finding.subject) == (Level.ERROR, f"east/{name}")
    assert f"producer {producer_id}" in finding.message
    assert "the mirror wait for ever" in finding.message
    assert f"abort --topic {name} --partition 0 --start-offset 0" in finding.hint


def test_hidden_transaction_is_not_called_hanging(secured: LocalCluster, west: LocalCluster, topic: TopicNamer) -> None:
    """Without the right to see transactions an open one looks as if nobody knew it: nobody is told to abort it."""
    name = topic("hidden")
    topics.create(secured, name)
    producer = TransactionalProducer(secured, f"{name}-id")
    producer.send(name, [topics.Given(b"k", b"v", [], topics.SEPTEMBER)] * 3)
    known = Administration(secured.cluster())
    with denied(secured, ResourceType.TRANSACTIONAL_ID, "*", AclOperation.DESCRIBE):
        deadline = time.monotonic() + TERM_S
        while not (report := known.topics([name])).not_told:
            assert time.monotonic() < deadline
        assert [transaction.state for transaction in report.transactions] == [TransactionState.UNKNOWN]
        assert "DESCRIBE on all transactional ids is missing" in report.not_told["transactions"]
        assert not any(finding.check == "hanging transaction" for finding in report.findings)
    producer.end(commit=True)


def test_missing_rights_leave_out_their_part_only(secured: LocalCluster, topic: TopicNamer) -> None:
    """Without DESCRIBE on the cluster the controllers are not told, without DESCRIBE_CONFIGS min.insync.replicas."""
    name = topic("partly")
    topics.create(secured, name, min_insync_replicas=1)
    deny(secured, ResourceType.TOPIC, name, AclOperation.DESCRIBE_CONFIGS)
    known = Administration(secured.cluster())
    with denied(secured, *CLUSTER, AclOperation.DESCRIBE):
        deadline = time.monotonic() + TERM_S
        while (report := known.describe()).quorum is not None:
            assert time.monotonic() < deadline
    assert "quorum" in report.not_told["quorum"]
    assert "min.insync.replicas" in report.not_told
    assert [broker.node_id for broker in report.brokers] == [1]
    (partition,) = [p for p in report.partitions if p.topic == name]
    assert (partition.leader, partition.high_watermark, partition.min_insync_replicas) == (1, 0, None)
