"""Examines everything a configuration needs before it is used.

Rights are probed, not guessed: with the operations a cluster says we may do (KIP-430), and with
requests that ask for validation only. The one thing left behind is an unused producer id.
"""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Collection, Iterator
from typing import Final

from isthmus.access import rights
from isthmus.access.bounds import quota_findings
from isthmus.clusters import findings as standing
from isthmus.clusters.certificates import certificate_findings
from isthmus.clusters.network import network_findings
from isthmus.clusters.placement import placement_finding, round_trip_ms
from isthmus.doctor.access import access_findings, principal_findings
from isthmus.doctor.groups import group_findings
from isthmus.errors import ClusterError, IsthmusError, JavaMissing, PlanRefused, SparkMissing
from isthmus.kafka.admin.brokers import (
    ClusterDescription,
    broker_releases,
    describe_cluster,
    topic_operations,
)
from isthmus.kafka.admin.clock import ClockReading, controller_clock
from isthmus.kafka.client import Client
from isthmus.kafka.session import ClientSession
from isthmus.kafka.transactions.producers import allocate_producer
from isthmus.kafka.transactions.transaction import Transaction
from isthmus.ledger.keeping import look_at_keeping
from isthmus.local.java import find_java
from isthmus.local.spark import find_spark
from isthmus.memory.claims import Claims
from isthmus.memory.filtering import in_force
from isthmus.memory.identity import same_clusters
from isthmus.model.cluster import Cluster
from isthmus.model.configuration import Configuration
from isthmus.model.kafka.findings import Finding, Level
from isthmus.model.kafka.releases import Releases, hull
from isthmus.model.lane import LaneState
from isthmus.model.link import Link
from isthmus.model.links.needs import About, Side, needs_of
from isthmus.model.problem import Problem
from isthmus.model.text.wording import format_count
from isthmus.topics.foresight import foresee
from isthmus.topics.observation import ObservedLink
from isthmus.topics.plan import LinkPlan, TopicPlan
from isthmus.topics.preflight import number

_CLOCK_AHEAD_MS_MAX: Final = 5_000
_CLOCK_HINT: Final = (
    "Let the hosts keep their time by NTP: lag in seconds is wrong by as much, and where positions of groups go by "
    "time, as in trees, clocks have to agree within margin_s."
)
_RETENTION_MS_MIN: Final = 3_600_000
DIVERGENCE: Final = "divergence"
"""The check that tells of a topic whose target cannot be gone on with; `isthmus link recover` is the way out."""
_HOST: Final = "host"
_CLUSTERS: Final = "clusters"
_SOURCE, _TARGET = Side.SOURCE, Side.TARGET


async def examine(configuration: Configuration, session: ClientSession) -> list[Finding]:
    """Everything that was found, the host first, then clusters, then links."""
    clients = {cluster.alias: session.client(cluster) for cluster in configuration.clusters}
    # Asking Java for its version takes a while.
    findings = [*await asyncio.to_thread(lambda: [*_host()]), *_configuration(configuration)]
    examined = await asyncio.gather(*(_cluster(client) for client in clients.values()))
    reached: dict[str, ClusterDescription] = {}
    for alias, (description, found) in zip(clients, examined, strict=True):
        findings.extend(found)
        if description is not None:
            reached[alias] = description
    claims = Claims()
    ids = {alias: description.cluster_id for alias, description in reached.items()}
    for problem, is_joined in same_clusters(ids, configuration.links):
        level = Level.ERROR if is_joined else Level.WARN
        findings.append(_of_problem(level, _CLUSTERS, "identity", problem))
    links = await in_force(configuration.links, session)
    for link in links:
        source_id, target_id = ids.get(link.source.alias), ids.get(link.target.alias)
        if source_id and target_id and source_id != target_id:
            there = reached[link.target.alias]
            findings.extend(await _link(link, session, there, claims, links, configuration.clusters))
    # Links that share a cluster find the same there.
    return list(dict.fromkeys(findings))


def _host() -> Iterator[Finding]:
    yield _ok(_HOST, "python", f"Python {platform.python_version()}")
    try:
        spark = find_spark()
        yield _ok(_HOST, "spark", f"Spark {spark.version} at {spark.home}")
    except SparkMissing as error:
        yield _error(_HOST, "spark", error)
    try:
        java = find_java()
        yield _ok(_HOST, "java", f"Java {java.major} at {java.executable}")
    except JavaMissing as error:
        yield _error(_HOST, "java", error)


def _configuration(configuration: Configuration) -> Iterator[Finding]:
    for warning in configuration.warnings:
        yield Finding(level=Level.WARN, subject=_HOST, check="configuration", message=warning)


async def _cluster(client: Client) -> tuple[ClusterDescription | None, list[Finding]]:
    alias = client.cluster.alias
    if unusable := list(certificate_findings(client.cluster)):
        return None, unusable
    try:
        description = await describe_cluster(client)
    except IsthmusError as error:
        return None, [_error(alias, "reachability", error)]
    brokers = description.brokers
    findings = [
        _ok(alias, "reachability", f"cluster id {description.cluster_id}, {format_count(len(brokers), 'broker')}")
    ]
    versions = await asyncio.gather(*(_version(client, node_id) for node_id in brokers))
    findings.extend(finding for finding in versions if isinstance(finding, Finding))
    known = [releases for releases in versions if isinstance(releases, Releases)]
    if known:
        findings.append(_ok(alias, "version", f"the brokers offer what Kafka {hull(known)} offers"))
    findings.extend(network_findings(client.cluster, brokers))
    findings.extend(_security(client.cluster))
    findings.append(await _clock(client))
    findings.extend(await standing.cluster_findings(client, description))
    return description, findings


async def _version(client: Client, node_id: int) -> Releases | Finding:
    try:
        return await broker_releases(client, node_id)
    except ClusterError as error:
        return _error(f"{client.cluster.alias}/{node_id}", "broker", error)


def _security(cluster: Cluster) -> Iterator[Finding]:
    if cluster.security.protocol in ("PLAINTEXT", "SASL_PLAINTEXT") and not all(
        server.startswith(("127.", "localhost:", "[::1]")) for server in cluster.bootstrap_servers
    ):
        yield Finding(
            level=Level.WARN,
            subject=cluster.alias,
            check="security",
            message=f"records travel unencrypted ({cluster.security.protocol})",
            hint="Use SSL or SASL_SSL where the network is not yours alone.",
        )


async def _clock(client: Client) -> Finding:
    alias = client.cluster.alias
    try:
        reading = await controller_clock(client)
    except ClusterError as error:
        return Finding(level=Level.WARN, subject=alias, check="clock", message=error.message, hint=error.hint)
    return clock_finding(alias, reading)


def clock_finding(subject: str, reading: ClockReading | None) -> Finding:
    """What a reading of a controller's clock means. Records never depend on clocks."""
    if reading is None:
        return _ok(subject, "clock", "not examined: only KRaft controllers report their clock")
    ahead_ms = reading.ahead_ms
    beyond = abs(ahead_ms) - reading.uncertainty_ms > _CLOCK_AHEAD_MS_MAX
    message = f"the controller's clock is {abs(ahead_ms):.0f} ms {'ahead of' if ahead_ms > 0 else 'behind'} ours"
    return Finding(
        level=Level.WARN if beyond else Level.OK,
        subject=subject,
        check="clock",
        message=f"{message} (±{reading.uncertainty_ms:.0f} ms)",
        hint=_CLOCK_HINT if beyond else "",
    )


async def _link(
    link: Link,
    session: ClientSession,
    cluster: ClusterDescription,
    claims: Claims,
    own: Collection[Link],
    clusters: Collection[Cluster],
) -> list[Finding]:
    source, target = session.client(link.source), session.client(link.target)
    kept = await _check_ledgers(link, source, target)
    if any(finding.level is Level.ERROR for finding in kept):
        return kept
    try:
        foreseen = await foresee(link, session, claims, own, clusters)
        observed, plan = foreseen.observed, foreseen.plan
        if plan.problem is not None:
            return [_of_problem(Level.ERROR, link.name, "clusters", plan.problem)]
        here = [pair.source_name for pair in observed.pairs.values()]
        there = [name for name, pair in observed.pairs.items() if pair.target is not None]
        at_source = await topic_operations(source, here)
        at_target = await topic_operations(target, there)
        ledger = await _ledger(link, target)
        states = await standing.link_findings(source, target, here, there)
        # One after the other: each would make the other wait.
        away_ms = await round_trip_ms(source), await round_trip_ms(target)
        if link.target.login:
            cluster = await describe_cluster(target)
        access = await access_findings(link, source, target, cluster.operations)
        access += await principal_findings(link, source, target, cluster.operations)
        beside = [
            *await rights.own_topic_findings(link, _SOURCE, source),
            *await rights.own_topic_findings(link, _TARGET, target),
            *await rights.declaring_findings(link, _SOURCE, source),
            *await rights.declaring_findings(link, _TARGET, target),
            *await rights.offsets_copy_findings(link, source, target),
            *await quota_findings(link.name, source, target),
        ]
    except (ClusterError, PlanRefused) as error:
        return [_error(link.name, "topics", error)]
    return [
        *topic_plan_findings(plan),
        *retention_findings(observed),
        *states,
        placement_finding(link.name, link.source.alias, link.target.alias, *away_ms),
        *rights.topic_findings(link.name, link.source.alias, needs_of(link, _SOURCE, About.MIRRORED), at_source),
        *rights.topic_findings(link.name, link.target.alias, needs_of(link, _TARGET, About.MIRRORED), at_target),
        *rights.cluster_findings(link, _TARGET, cluster.operations),
        *beside,
        *access,
        *kept,
        *ledger,
        *await group_findings(link, session),
        *(_of_problem(Level.WARN, link.name, "recommendation", problem) for problem in plan.recommendations),
        *(_of_problem(Level.WARN, link.name, "recommendation", problem) for problem in plan.advice),
    ]


async def _check_ledgers(link: Link, source: Client, target: Client) -> list[Finding]:
    """Whether the ledgers of a link keep what is written into them."""
    writes_at_source = bool(link.namespaces) or (link.distributor is not None and link.distributor.has_allowance)
    findings: list[Finding] = []
    for client in (source, target) if writes_at_source else (target,):
        try:
            problem = await look_at_keeping(client)
        except ClusterError as error:
            message = f"not examined whether the ledger of {client.cluster.alias} keeps its records: {error.message}"
            findings.append(_of_problem(Level.WARN, link.name, "ledger", Problem(message, error.hint)))
        else:
            findings += [] if problem is None else [_of_problem(Level.ERROR, link.name, "ledger", problem)]
    return findings


async def _ledger(link: Link, target: Client) -> list[Finding]:
    """Whether we get producer ids and transactions."""
    findings: list[Finding] = []
    for check, asked in (
        ("producer id", allocate_producer(target)),
        ("ledger", Transaction(target, f"isthmus.{link.name}.controller").probe()),
    ):
        try:
            await asked
        except ClusterError as error:
            findings.append(_error(link.name, check, error))
    return findings


def topic_plan_findings(plan: LinkPlan) -> Iterator[Finding]:
    """What the plan of a link says about its topics."""
    sound = [topic for topic in plan.topics if topic.is_copied]
    mapped = sum(topic.is_mapped for topic in sound)
    kept = len(sound) - mapped
    for topic in plan.topics:
        yield from _topic(f"{plan.link}/{topic.topic}", topic)
    if kept:
        yield _ok(plan.link, "topics", f"{format_count(kept, 'topic')} can be mirrored with the same offsets")
    if mapped:
        yield _ok(plan.link, "topics", f"{format_count(mapped, 'topic')} can be mirrored with mapped offsets")
    if plan.aborted is not None:
        yield _ok(plan.link, "transactions", f"{plan.aborted}. {plan.aborted.advice}".rstrip(" ."))
    if plan.visibility is not None:
        yield _ok(plan.link, "transactions", f"{plan.visibility}. {plan.visibility.advice}".rstrip(" ."))
    for problem in plan.unmatched:
        yield _of_problem(Level.WARN, plan.link, "patterns", problem)


def retention_findings(observed: ObservedLink) -> Iterator[Finding]:
    """How long the link may be down before the source deletes records that were not copied."""
    kept = {
        pair.source_name: number(pair.source, "retention.ms", -1)
        for pair in observed.pairs.values()
        if "delete" in pair.source.cleanup_policy.split(",")
    }
    finite = {name: retention_ms for name, retention_ms in kept.items() if retention_ms >= 0}
    if not finite:
        return
    name = min(finite, key=lambda topic: finite[topic])
    hours = finite[name] / 3_600_000
    is_short = finite[name] < _RETENTION_MS_MIN
    yield Finding(
        level=Level.WARN if is_short else Level.OK,
        subject=observed.link.name,
        check="retention",
        message=f"the source keeps records for {hours:.3g} h or more (least: topic {name})",
        hint="A longer standstill loses records: raise retention.ms of the topic." if is_short else "",
    )


def _topic(subject: str, topic: TopicPlan) -> Iterator[Finding]:
    for problem in topic.reasons:
        yield _of_problem(Level.ERROR, subject, _check(topic.state), problem)
    for partition in topic.partitions:
        if partition.refusal is not None and partition.state is not LaneState.NOT_AUTHORIZED:
            # Rights that are missing are reported by right, not by partition.
            problem = _add_partition(partition.partition, partition.refusal)
            yield _of_problem(Level.ERROR, subject, _check(partition.state), problem)
        if partition.unexamined is not None:
            problem = _add_partition(partition.partition, partition.unexamined, "not examined: ")
            yield _of_problem(Level.WARN, subject, "preflight", problem)
    for problem in topic.notes:
        yield _of_problem(Level.WARN, subject, "preflight", problem)


def _check(state: LaneState) -> str:
    return DIVERGENCE if state.is_recoverable else "preflight"


def _add_partition(partition: int, problem: Problem, what: str = "") -> Problem:
    return Problem(f"partition {partition}: {what}{problem.message}", problem.hint)


def _of_problem(level: Level, subject: str, check: str, problem: Problem) -> Finding:
    return Finding(level=level, subject=subject, check=check, message=problem.message, hint=problem.hint)


def _error(subject: str, check: str, error: IsthmusError) -> Finding:
    return Finding(level=Level.ERROR, subject=subject, check=check, message=error.message, hint=error.hint)


def _ok(subject: str, check: str, message: str) -> Finding:
    return Finding(level=Level.OK, subject=subject, check=check, message=message)
