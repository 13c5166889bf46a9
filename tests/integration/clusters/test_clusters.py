"""What the file calls clusters, and which clusters they are."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from isthmus.errors import PlanRefused
from isthmus.fabric.fabric import Fabric
from isthmus.local import LocalCluster
from isthmus.model.cluster import Cluster, Tls
from isthmus.model.groupsettings import GroupPattern, GroupSettings
from isthmus.model.kafka.findings import Level
from isthmus.model.state import LinkState
from testing.records import topics
from testing.records.topics import Given
from testing.runs.running import configuration_of, ends, link_of, running
from testing.verbs import examine

pytestmark = pytest.mark.integration

TopicNamer = Callable[[str], str]


def again(cluster: LocalCluster, alias: str) -> Cluster:
    """A cluster under another name and another address."""
    servers = cluster.bootstrap_servers.replace("127.0.0.1", "localhost").split(",")
    return Cluster(alias=alias, bootstrap_servers=tuple(servers))


def test_a_link_between_two_names_of_one_cluster(east: LocalCluster, spark: SparkSession, topic: TopicNamer) -> None:
    """Plan, run and groups refuse it in the same words: both names, and what to correct."""
    groups = GroupSettings(include=(GroupPattern.parse("*"),))
    link = replace(link_of(east.cluster(), again(east, "twin"), topic("same"), name="mirror"), groups=groups)
    message = f"east and twin are the same cluster ({east.cluster_id})"
    advice = "bootstrap_servers of east or twin: link mirror would mirror"
    with Fabric(configuration_of(link), spark=spark) as fabric:
        outcome = fabric.run(until="caught-up")
        (planned,) = fabric.plan().links
        (carried,) = fabric.groups.sync()
    assert (outcome.exit_code, outcome.is_caught_up) == (PlanRefused.exit_code, False)
    told = [outcome.links[0].problem, planned.problem, carried.problem]
    assert [problem and problem.message for problem in told] == [message] * 3
    assert all(problem is not None and advice in problem.hint for problem in told)


def test_two_names_of_one_cluster_in_the_file(east: LocalCluster, west: LocalCluster, topic: TopicNamer) -> None:
    """Where no link joins them they may be two listeners or two logins: doctor warns, and nothing is refused."""
    configuration = configuration_of(link_of(west.cluster(), east.cluster(), topic("same")))
    listed = replace(configuration, clusters=(*configuration.clusters, again(east, "twin")))
    (found,) = [finding for finding in asyncio.run(examine(listed)) if finding.check == "identity"]
    assert (found.level, found.message) == (Level.WARN, f"east and twin are the same cluster ({east.cluster_id})")
    assert "write it in the links instead of twin" in found.hint


def test_a_certificate_that_is_being_renewed_is_waited_for(
    secured: LocalCluster, west: LocalCluster, spark: SparkSession, topic: TopicNamer, tmp_path: Path
) -> None:
    """A run takes a missing file for a cluster that is away, says which file it is, and begins when it is there."""
    name = topic("renewed")
    topics.create(secured, name)
    topics.produce(secured, name, [Given(b"k", b"v", [], topics.SEPTEMBER)] * 10)
    login, file = secured.cluster(), tmp_path / "ca.pem"
    waiting = replace(login, security=replace(login.security, tls=Tls(ca_file=str(file))))

    async def is_copied() -> bool:
        return await ends(west, name) == [10]

    async def scenario() -> None:
        async with running(configuration_of(link_of(waiting, west.cluster(), name, name=name)), spark) as run:
            await run.until(lambda: [link.state for link in run.links] == [LinkState.UNAVAILABLE])
            (link,) = run.links
            assert link.problem is not None
            assert f"clusters.secured.security.tls.ca_file names {file}" in link.problem.message
            file.write_bytes(secured.credentials.ca_file.read_bytes())
            await run.until(is_copied)

    asyncio.run(scenario())
