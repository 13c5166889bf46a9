"""Records behind an open transaction of the source are told by everything that tells how a link stands."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import Producer
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from isthmus import config
from isthmus.cli.app import app
from isthmus.errors import GateNotMet
from isthmus.fabric.fabric import Fabric
from isthmus.local import LocalCluster
from isthmus.model.links.progress import LinkProgress
from isthmus.status.status import StatusReader
from testing.patience import TERM_S
from testing.records import topics
from testing.records.topics import Given
from testing.runs.running import patient

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("signals")]

STABLE, BEHIND = 10, 500


def records(count: int) -> list[Given]:
    """Old records, so that whoever waits for one has waited for long."""
    return [Given(b"key", b"value %d" % n, [], topics.SEPTEMBER + n) for n in range(count)]


def configure(path: Path, east: LocalCluster, west: LocalCluster, name: str) -> None:
    """Write down a link of one topic, which has its name."""
    servers = {"east": east.bootstrap_servers, "west": west.bootstrap_servers}
    document = {
        "clusters": {alias: {"bootstrap_servers": address} for alias, address in servers.items()},
        "links": [{"name": name, "source": "east", "target": "west", "topics": {"include": [name]}}],
    }
    path.write_text(yaml.safe_dump(document))


async def look_beside_transactions(path: Path, writing: Producer, name: str) -> tuple[LinkProgress, LinkProgress]:
    """How the link stands before and after the one transaction ends and another begins."""
    async with StatusReader(config.load(path).links) as reader:
        (before,) = await reader.read()
        writing.commit_transaction()
        writing.begin_transaction()
        topics.send(writing, name, [Given(b"key", b"value", [], int(time.time() * 1000))])
        topics.flush(writing)
        (after,) = await reader.read()
    return before, after


def assert_like(path: Path, name: str) -> None:
    """A topic that is nowhere is an error, which names the one that was probably meant."""
    result = CliRunner().invoke(app, ["status", "--topic", f"{name}x", "-c", str(path)])
    assert result.exit_code == 2
    assert f"Did you mean {name}?" in " ".join(result.stderr.split())


def test_what_waits_for_a_transaction_is_told(
    tmp_path: Path, east: LocalCluster, west: LocalCluster, spark: SparkSession, topic: Callable[[str], str]
) -> None:
    """Status, plan, wait, a run that is to catch up, and verify: none says that all is there while acknowledged records
    wait for a transaction, unless it is asked for what is committed. How old what waits is, is known too where the
    transactions that hold it back change from look to look.
    """
    name = topic("held")
    path = tmp_path / "isthmus.yaml"
    configure(path, east, west, name)
    fabric = Fabric(replace(config.load(path), timings=patient(stuck_s=1.0)), spark=spark)

    def call(*arguments: str) -> tuple[int, Any, str]:
        result = CliRunner().invoke(app, [*arguments, "-c", str(path), "-o", "json"])
        return result.exit_code, json.loads(result.stdout), result.stderr

    topics.create(east, name)
    topics.produce(east, name, records(STABLE))
    writing = topics.producer(east, transactional_id=f"{name}.pay")
    writing.init_transactions(30)
    writing.begin_transaction()
    topics.send(writing, name, records(1))
    topics.flush(writing)
    topics.produce(east, name, records(BEHIND))

    held = f"{BEHIND + 1} offsets wait for the transaction of {name}.pay, open for "
    _, plan, _ = call("plan")
    assert plan["links"][0]["topics"][0]["records_waiting"] == BEHIND + 1
    assert held in plan["links"][0]["topics"][0]["notes"][-1]["message"]

    outcome = fabric.run(until="caught-up")
    assert (outcome.records, outcome.is_caught_up, outcome.exit_code) == (STABLE, False, GateNotMet.exit_code)
    assert outcome.links[0].waiting_records == BEHIND + 1
    assert fabric.run(until="committed").exit_code == 0

    code, (status,), _ = call("status")
    (found,) = status["topics"]
    assert (code, found["lag_records"], found["waiting_records"], status["waiting_records"]) == (0, 0, 501, 501)
    assert [each["transactional_id"] for each in status["transactions"]] == [f"{name}.pay"]
    assert_like(path, name)
    result = CliRunner().invoke(app, ["status", "-c", str(path)])
    assert held in " ".join(result.stderr.split())

    for wanted, expected in (
        ("caught-up", 5),
        ("lag<=500", 5),
        ("lag_seconds<=60", 5),
        ("committed", 0),
        ("lag<=501", 0),
    ):
        assert call("wait", name, "--for", wanted, "--timeout", "0")[0] == expected, wanted
    late = CliRunner().invoke(app, ["wait", name, "--for", "caught-up", "--timeout", "0", "-c", str(path)])
    assert "offsets wait for open transactions" in " ".join(late.stderr.split())

    verdict = fabric.verify()[name]
    assert (verdict.equal, verdict.differs, verdict.waiting, verdict.records) == (False, False, BEHIND + 1, STABLE)
    assert fabric.verify(allow_lag=True)[name].equal

    before, after = asyncio.run(look_beside_transactions(path, writing, name))
    assert [len([*each.waits]) for each in (before, after)] == [1, 0]
    waited_s = after.topics[0].partitions[0].waiting_s
    assert waited_s is not None
    assert waited_s < TERM_S

    writing.commit_transaction()
    assert fabric.run(until="caught-up").exit_code == 0
    assert call("wait", name, "--for", "caught-up", "--timeout", "0")[0] == 0
    assert fabric.verify()[name].equal
