"""Passwords, secrets and certificates that are changed while something runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion
from pyspark.sql import SparkSession

from isthmus import config
from isthmus.local import LocalCluster
from isthmus.model.configuration import Configuration
from isthmus.model.lane import LaneState
from testing.patience import UNFENCED
from testing.records import oracle, topics
from testing.records.topics import Given
from testing.runs.running import running

pytestmark = pytest.mark.integration

TopicNamer = Callable[[str], str]
LIFE_MS = 2000
LINK = """\
clusters:
  east: {{bootstrap_servers: "{source}"}}
  west:
    bootstrap_servers: "{target}"
    security:
      mechanism: SCRAM-SHA-512
      username: isthmus
      password: "${{file:password}}"
      tls: {{ca_file: "{ca_file}"}}
links:
  - {{name: "{topic}", source: east, target: west, topics: {{include: ["{topic}"]}}}}
spark: {{lease_term_s: 600}}
"""


@pytest.fixture(scope="module")
def secured() -> Iterator[LocalCluster]:
    """A cluster where logins are good for two seconds."""
    properties = {"listener.name.sasl_ssl.connections.max.reauth.ms": str(LIFE_MS)}
    with LocalCluster.start(
        "guarded", brokers=1, secure=True, properties={**UNFENCED, **properties}, heap_mb=256
    ) as cluster:
        yield cluster


def change_password(cluster: LocalCluster, password: str) -> None:
    """The ordinary user's, at the brokers."""
    credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    change = UserScramCredentialUpsertion("isthmus", credential, password.encode())
    admin = AdminClient({"bootstrap.servers": cluster.admin_bootstrap_servers})
    admin.alter_user_scram_credentials([change])["isthmus"].result(30)


def guarded(source: LocalCluster, target: LocalCluster, name: str, folder: Path) -> Configuration:
    """A link whose password for the target stands in a file."""
    text = LINK.format(
        source=source.admin_bootstrap_servers,
        target=target.bootstrap_servers,
        ca_file=target.credentials.ca_file,
        topic=name,
    )
    return config.parse(text, folder=folder)


def test_password_changed_while_a_link_runs(
    east: LocalCluster, secured: LocalCluster, spark: SparkSession, topic: TopicNamer, tmp_path: Path
) -> None:
    """Until the file follows the brokers the lane says that its login is refused; then controller and lease go on."""
    name = topic("rotated")
    password = tmp_path / "password"
    password.write_text(secured.credentials.password("isthmus").reveal())
    topics.create_both(east, secured, name)
    topics.produce(east, name, [Given(b"a", b"1", [], topics.SEPTEMBER)])

    def copied(count: int) -> bool:
        return oracle.ends(secured.admin_bootstrap_servers, name, 0).stable == count

    async def scenario() -> None:
        async with running(guarded(east, secured, name, tmp_path), spark) as run:
            await run.until(lambda: run.state_of(name) is LaneState.ACTIVE)
            await run.until(lambda: copied(1))
            change_password(secured, "another-one")
            topics.produce(east, name, [Given(b"b", b"2", [], topics.SEPTEMBER)])
            await run.until(lambda: any(link.problem is not None for link in run.links))
            password.write_text("another-one\n")
            topics.produce(east, name, [Given(b"c", b"3", [], topics.SEPTEMBER)])
            await run.until(lambda: copied(3))
            await run.until(lambda: run.state_of(name) is LaneState.ACTIVE)
            await run.until(lambda: all(link.problem is None for link in run.links))
            assert (await run.end_well()).exit_code == 0

    try:
        asyncio.run(scenario())
    finally:
        change_password(secured, secured.credentials.password("isthmus").reveal())
