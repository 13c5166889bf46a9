"""What the other clusters remember of one that is away, and how it is shown."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from isthmus.fabric.fabric import Fabric
from isthmus.kafka.client import Client
from isthmus.ledger.topic import locate, on_topic
from isthmus.local import LocalCluster
from isthmus.local.ports import free_ports
from isthmus.model.configuration import Configuration
from isthmus.model.groupsettings import GroupPattern, GroupSettings
from isthmus.model.link import Link
from isthmus.model.links.lastknown import KnownNames
from testing.brokers.acls import denied
from testing.groups import consumers
from testing.groups.carrying import records
from testing.records import topics
from testing.runs.command import run
from testing.runs.running import link_of
from testing.verbs import remember

pytestmark = pytest.mark.integration

Namer = Callable[[str], str]


async def looked_at(link: Link) -> None:
    """What a run of the link writes down each minute."""
    async with Client(link.target) as client:
        await on_topic(client, lambda: locate(client))
    await remember([link], declared=())


def shown(file: Path, output: str) -> str:
    """What is printed of a cluster that is away, for people and for programs."""
    words = ("cluster", "describe", "guarded", "--last-known", "-o", output, "-c", file)
    done = run(*words, env={**os.environ, "COLUMNS": "250"})
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_a_cluster_that_is_away_is_shown_as_it_was(
    guarded: LocalCluster, west: LocalCluster, topic: Namer, tmp_path: Path
) -> None:
    """How it stood, how long ago, and who saw it: topics with their own configurations and ends, groups, and rules
    about both, but of nothing beside them. Whom a rule names is not remembered, nor how to reach the cluster.
    """
    stem = topic("known")
    topics.create(guarded, f"{stem}-in", max_message_bytes=2_000_000)
    topics.create(guarded, f"other-{stem}")
    topics.produce(guarded, f"{stem}-in", records(7))
    consumers.commit(guarded, {f"{stem}-group": {(f"{stem}-in", 0): 3}})
    link = link_of(replace(topics.as_admin(guarded), alias="guarded"), west.cluster(), f"{stem}-*", name=stem)
    link = replace(link, groups=GroupSettings(include=(GroupPattern.parse(f"{stem}-*"),)))
    with denied(guarded, ResourceType.TOPIC, f"{stem}-in", AclOperation.ALTER):
        asyncio.run(looked_at(link))

    (closed,) = free_ports(1)
    file = tmp_path / "isthmus.yaml"
    at = {"guarded": f"127.0.0.1:{closed}", "west": west.bootstrap_servers}
    file.write_text(json.dumps({"clusters": {alias: {"bootstrap_servers": each} for alias, each in at.items()}}))
    printed = {output: shown(file, output) for output in ("json", "table", "wide")}
    known: dict[str, Any] = json.loads(printed["json"])
    seen = known["cluster"], known["cluster_id"], known["brokers"], known["kept_by"], known["seen_by"]
    assert seen == ("guarded", guarded.cluster_id, 1, "west", f"link {stem} on {socket.gethostname()}")
    assert 0 <= known["age_seconds"] < 120
    (names,) = [each for each in known["namespaces"] if each["link"] == stem]
    (found,) = names["topics"]
    assert (found["topic"], found["partitions"]) == (f"{stem}-in", [{"partition": 0, "log_start": 0, "log_end": 7}])
    assert found["configs"]["max.message.bytes"] == "2000000"
    assert [(each["group"], each["state"]) for each in names["groups"]] == [(f"{stem}-group", "Empty")]
    digest = hashlib.sha256(b"User:isthmus").hexdigest()[:12]
    rule = {"permission": "DENY", "operation": "ALTER", "resource": "topic", "name": f"{stem}-in", "pattern": "LITERAL"}
    assert {**rule, "principal": f"User:#{digest}", "is_for_one_host": False} in names["rules"]

    for output in ("table", "wide"):
        for text in (f"{stem}-in", f"link {stem} on {socket.gethostname()}", "guarded was not asked: it stood so"):
            assert text in printed[output], output
    assert [each for each, told in printed.items() if f"{stem}-group" in told] == ["json", "wide"]
    assert [each for each, told in printed.items() if f"User:#{digest}" in told] == ["json", "wide"]
    secrets = "User:isthmus", "127.0.0.1", *guarded.admin_bootstrap_servers.split(","), f"other-{stem}"
    assert [(each, text) for each, told in printed.items() for text in secrets if text in told] == []


def test_a_cluster_that_is_slow_to_tell_its_names_is_remembered(
    east: LocalCluster, west: LocalCluster, topic: Namer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without them: how it stands is worth more than nothing."""
    name = topic("slow")
    link = link_of(east.cluster(), west.cluster(), name, name=name)

    async def slow(*_: object) -> list[KnownNames]:
        raise TimeoutError

    monkeypatch.setattr("isthmus.clusters.lastknown.lastknown.contents", slow)
    asyncio.run(looked_at(link))
    found = Fabric(Configuration(clusters=(link.source, link.target), links=(link,))).cluster("east").last_known()
    assert (found.cluster.link, found.kept_by) == (name, "west")
    assert name not in [each.link for each in found.names]
