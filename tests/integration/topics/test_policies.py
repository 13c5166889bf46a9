"""A target that does not take a topic as it is at the source: by a policy of its own, or as its brokers are newer."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from isthmus.fabric.fabric import Fabric
from isthmus.kafka.admin.topics import describe_topics
from isthmus.kafka.client import Client
from isthmus.local import LocalCluster
from isthmus.local.jvm import jvm_for
from isthmus.local.zookeeper import ZooKeeperModeCluster
from isthmus.model.configsettings import ConfigSettings, PropertyPattern
from isthmus.model.configuration import Configuration
from isthmus.model.kafka.topic import TopicDescription
from isthmus.model.lane import LaneState
from isthmus.model.link import Link
from isthmus.topics.plan import Action, TopicPlan
from testing.patience import TERM_S, UNFENCED
from testing.records import topics
from testing.runs.mirrored import Mirrored
from testing.runs.running import link_of

pytestmark = pytest.mark.integration

POLICY: Final = Path(__file__).with_name("StrictPolicy.java")
AFTER: Final = "message.timestamp.after.max.ms"


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A cluster that looks at every topic before it creates it."""
    jvm, folder = jvm_for("broker-4.4.0"), tmp_path_factory.mktemp("policy")
    command = [str(jvm.java.executable), "-cp", jvm.class_path, "-m", "jdk.compiler/com.sun.tools.javac.Main"]
    subprocess.run([*command, "-cp", jvm.class_path, "-d", str(folder), str(POLICY)], check=True, timeout=TERM_S)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JDK_JAVA_OPTIONS", f"-cp {jvm.class_path}:{folder}")
        properties = {**UNFENCED, "create.topic.policy.class.name": "StrictPolicy"}
        cluster = LocalCluster.start("strict", brokers=1, heap_mb=256, properties=properties)
    with cluster:
        yield cluster


def planned(link: Link) -> tuple[dict[str, TopicPlan], int]:
    """What `isthmus plan` says of the topics of a link, by their names behind the dot, and how it ends."""
    plan = Fabric(Configuration(clusters=(link.source, link.target), links=(link,))).plan()
    (found,) = plan.links
    assert found.problem is None
    return {topic.topic.rpartition(".")[2]: topic for topic in found.topics}, plan.exit_code


async def created(link: Link) -> dict[str, TopicDescription | None]:
    """The topics as a run creates them, by their names behind the dot; `None` for one that is refused."""
    async with Client(link.source) as source, Client(link.target) as target:
        m = Mirrored(source, target, "none")
        m.link = link
        m.begin()
        await m.loop.refresh()
        assert m.loop.plan is not None
        names = [topic.topic for topic in m.loop.plan.topics]
        known = (await target.metadata(names)).topics
        described = (
            await describe_topics(target, [known[name] for name in names if not known[name].error_code])
        ).values
        return {name.rpartition(".")[2]: described.get(name) for name in names}


def test_what_a_policy_refuses_and_no_record_needs_is_left_out(
    east: LocalCluster, strict: LocalCluster, topic: Callable[[str], str]
) -> None:
    """The plan finds what the run does, and what is left out is told; so is what a policy does not allow at all."""
    stem = topic("ruled")
    for name in ("capped", "demanding", "never"):
        topics.create(east, f"{stem}.{name}")
    link = link_of(east.cluster(), strict.cluster(), f"{stem}.*", name=stem)
    found, exit_code = planned(link)
    assert {name: each.action for name, each in found.items()} == {
        "capped": Action.CREATE,
        "demanding": Action.CREATE,
        "never": Action.REFUSE,
    }
    assert exit_code == 1
    (note,) = [each for each in found["capped"].notes if AFTER in each.message]
    assert "POLICY_VIOLATION" in note.message
    assert found["never"].state is LaneState.TARGET_UNAVAILABLE
    assert "not by you" in found["never"].reasons[0].message
    assert "topics.replication_factor" in found["never"].reasons[0].hint
    made = asyncio.run(created(link))
    assert made["never"] is None
    for name in ("capped", "demanding"):
        described, creation = made[name], found[name].creation
        assert described is not None
        assert creation is not None
        assert described.own_configs == creation.configs
    # Who says so is not even asked.
    excluding = ConfigSettings(exclude=(*link.configs.exclude, PropertyPattern.parse(AFTER)))
    other = f"{stem}.again.capped"
    topics.create(east, other)
    again, _ = planned(replace(link_of(east.cluster(), strict.cluster(), other, name=stem), configs=excluding))
    assert [each for each in again["capped"].notes if AFTER in each.message] == []


def test_a_value_that_newer_brokers_do_not_take_is_left_out(west: LocalCluster, topic: Callable[[str], str]) -> None:
    """The topic is created without it. More replicas than there are brokers are refused by the plan too, and a name
    that meets another one tells what to do.
    """
    stem = topic("small")
    with ZooKeeperModeCluster.start("3.9.1") as old:
        source = replace(old.cluster(), alias="old")
        topics.create(Old(old), f"{stem}.segments", segment_bytes=1000)
        link = link_of(source, west.cluster(), f"{stem}.*", name=stem)
        found, exit_code = planned(link)
        assert (found["segments"].action, exit_code) == (Action.CREATE, 0)
        assert any("segment.bytes=1000 is left out" in note.message for note in found["segments"].notes)
        wide = replace(link, topics=replace(link.topics, replication_factor=3))
        refused, exit_code = planned(wide)
        assert (refused["segments"].action, exit_code) == (Action.REFUSE, 1)
        assert "INVALID_REPLICATION_FACTOR" in refused["segments"].reasons[0].message
        topics.create(west, f"{stem}_segments")
        meeting, exit_code = planned(link)
        assert (meeting["segments"].action, exit_code) == (Action.REFUSE, 1)
        assert "topics.naming" in meeting["segments"].reasons[0].hint
        other = f"{stem}.other.segments"
        topics.create(Old(old), other, segment_bytes=1000)
        made = asyncio.run(created(link_of(source, west.cluster(), other, name=stem)))
        assert made["segments"] is not None
        assert "segment.bytes" not in made["segments"].own_configs


class Old:
    """A cluster of older brokers, under the names that the tests know."""

    def __init__(self, cluster: ZooKeeperModeCluster) -> None:
        self.admin_bootstrap_servers = cluster.bootstrap_servers
        self.cluster = cluster.cluster
