"""`isthmus run` is interrupted, killed and doubled: it ends with a code of its own, and no record suffers."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka.admin import AdminClient, NewPartitions

from isthmus.local import LocalCluster
from isthmus.local.ports import free_ports
from testing.patience import TERM_S
from testing.records import oracle, topics
from testing.runs.driver import Driver, configured, started
from tests.faults.stream import Stream

pytestmark = pytest.mark.faults

TopicNamer = Callable[[str], str]


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A topic that is written to, and the configuration of a link that mirrors it."""

    source: LocalCluster
    target: LocalCluster
    name: str
    stream: Stream
    folder: Path
    configuration: Path

    def run(self, *arguments: str, log: str = "run", **environment: str) -> AbstractContextManager[Driver]:
        """`isthmus run` of this configuration."""
        log_file = self.folder / f"{log}.log"
        return started("run", "-c", str(self.configuration), *arguments, log=log_file, **environment)

    def rewrite(self, change: Callable[[dict[str, Any]], object]) -> None:
        """Change the configuration."""
        document = yaml.safe_load(self.configuration.read_text())
        change(document)
        self.configuration.write_text(yaml.safe_dump(document))

    def copied(self, partition: int = 0) -> int:
        """Where the target ends; 0 while there is nothing."""
        admin = AdminClient({"bootstrap.servers": self.target.admin_bootstrap_servers})
        found = admin.list_topics(timeout=TERM_S).topics.get(self.name)
        if found is None or partition not in found.partitions or found.partitions[partition].leader < 0:
            return 0
        return oracle.ends(self.target.admin_bootstrap_servers, self.name, partition).high

    def has_copied(self, records: int, partition: int) -> bool:
        """Whether that many have arrived."""
        return self.copied(partition) >= records

    def until_copied(self, driver: Driver, records: int = 50) -> None:
        """Wait until some more records of the stream have arrived."""
        before = self.copied()
        driver.wait_for(lambda: self.copied() >= before + records)

    def finish(self) -> str:
        """A run that ends when everything is copied finds everything in order; what it says."""
        with self.run("--until", "caught-up", log="last") as driver:
            assert driver.wait() == 0, driver.said
            driver.assert_alone()
        self.stream.assert_mirrored(self.target)
        return driver.said


@pytest.fixture
def scene(east: LocalCluster, west: LocalCluster, topic: TopicNamer, tmp_path: Path) -> Scene:
    """From east to west, under a link of its own."""
    name = topic("driven")
    topics.create(east, name)
    configuration = configured(tmp_path / "isthmus.yaml", east, west, name, link=name)
    stream = Stream(east, {name: 0})
    return Scene(source=east, target=west, name=name, stream=stream, folder=tmp_path, configuration=configuration)


@pytest.mark.parametrize(
    ("chance", "number"),
    [
        (1, signal.SIGINT),
        (2, signal.SIGTERM),
        (1, signal.SIGTERM),
        (2, signal.SIGINT),
    ],
    indirect=["chance"],
)
def test_signals_at_any_moment(scene: Scene, chance: random.Random, number: signal.Signals) -> None:
    """Ctrl-C and SIGTERM, while it starts as well as later, end it and all it started."""
    with scene.stream.flowing(), scene.run() as driver:
        delay_s = chance.uniform(0.0, 8.0)
        print(f"{number.name} after {delay_s:.2f} s")  # noqa: T201
        driver.wait_for(lambda: driver.heeds(signal.SIGTERM))
        time.sleep(delay_s)
        if number is signal.SIGINT:
            driver.interrupt()
        else:
            driver.process.send_signal(number)
        code = driver.wait()
        assert code == 128 + number, driver.said
        assert "Traceback" not in driver.said, driver.said
        driver.assert_alone()


def test_a_second_signal_does_not_wait_for_a_frozen_target(scene: Scene) -> None:
    """While a farewell is not answered a run says so, and that Ctrl-C once more ends it at once."""
    with scene.run() as driver:
        with scene.stream.flowing():
            scene.until_copied(driver)
        scene.target.broker(1).pause()
        try:
            driver.interrupt()
            driver.wait_for(lambda: "a second Ctrl-C ends at once" in driver.said)
            driver.interrupt()
            assert driver.wait() == 128 + signal.SIGINT, driver.said
        finally:
            scene.target.broker(1).resume()
        assert "Traceback" not in driver.said, driver.said
        driver.assert_alone()


def test_driver_killed(scene: Scene) -> None:
    """A driver that is killed takes everything it started with it; the next run carries on exactly, and at once."""
    with scene.stream.flowing(), scene.run() as driver:
        scene.until_copied(driver)
        driver.process.kill()
        assert driver.wait() == -signal.SIGKILL
        driver.assert_alone()
    assert "waiting for the controller" not in scene.finish()


def test_jvm_killed(scene: Scene) -> None:
    """Without Spark's JVM a run cannot go on: it says so and ends, and the next one carries on exactly."""
    with scene.stream.flowing(), scene.run() as driver:
        scene.until_copied(driver)
        os.kill(driver.jvm(), signal.SIGKILL)
        assert driver.wait() == 1, driver.said
        assert "Spark has ended" in driver.said
        assert "Traceback" not in driver.said
        driver.assert_alone()
    scene.finish()


def test_two_runs_of_the_same_links(scene: Scene) -> None:
    """The younger run leaves the link to the older one, unless told otherwise: then that one ends and says why."""
    with scene.run(log="older") as older, contextlib.ExitStack() as later:
        with scene.stream.flowing():
            scene.until_copied(older)
            with scene.run(log="refused") as refused:
                assert refused.wait() == 16, refused.said
                assert_told(refused, f"is run by {named(older)}", "--take-over")
            scene.until_copied(older)
            younger = later.enter_context(scene.run("--take-over", log="younger"))
            assert older.wait() == 15, older.said
            assert_told(older, f"{named(younger)}")
            scene.until_copied(younger)
        younger.wait_for(lambda: scene.has_copied(scene.stream.sent[scene.name, 0], 0))
    scene.stream.assert_mirrored(scene.target)


def test_a_frozen_run_is_succeeded_once_it_was_silent(scene: Scene) -> None:
    """It may be alive, so it is waited for; when it goes on it finds itself fenced, and no record was written twice."""
    with scene.run(log="older") as older, contextlib.ExitStack() as later:
        with scene.stream.flowing():
            scene.until_copied(older)
            older.process.send_signal(signal.SIGSTOP)
            younger = later.enter_context(scene.run(log="younger"))
            younger.wait_for(lambda: f"waiting for {named(older)}" in younger.said)
            # The leases of the older one go on for a while without it: only the younger one's word counts.
            younger.wait_for(lambda: f"{scene.name}: ACTIVE" in younger.said)
            scene.until_copied(younger)
            older.process.send_signal(signal.SIGCONT)
            assert older.wait() == 15, older.said
            assert_told(older, named(younger))
            scene.until_copied(younger)
        younger.wait_for(lambda: scene.has_copied(scene.stream.sent[scene.name, 0], 0))
    scene.stream.assert_mirrored(scene.target)


def test_partitions_added(scene: Scene) -> None:
    """Partitions the source gets while it runs are mirrored, and the first one is not disturbed."""
    with scene.run() as driver:
        with scene.stream.flowing():
            scene.until_copied(driver)
            admin = AdminClient({"bootstrap.servers": scene.source.admin_bootstrap_servers})
            for future in admin.create_partitions([NewPartitions(scene.name, 3)]).values():
                future.result(TERM_S)
            topics.await_served(scene.source, scene.name, partitions=3)
            for partition in (1, 2):
                topics.produce(scene.source, scene.name, topics.some(60, random.Random(1)), partition=partition)
                driver.wait_for(partial(scene.has_copied, 60, partition))
            scene.until_copied(driver)
        driver.wait_for(lambda: scene.copied() == scene.stream.sent[scene.name, 0])
    oracle.assert_same(scene.source, scene.target, scene.name, partitions=3)


def test_without_java(scene: Scene) -> None:
    """Spark needs Java: without it a run says so, with a code of its own."""
    with scene.run("--until", "caught-up", PATH=os.devnull, JAVA_HOME=os.devnull) as driver:
        assert driver.wait() == 20, driver.said
        assert_told(driver, "Java", "JAVA_HOME")


def test_unreachable_cluster(scene: Scene) -> None:
    """A cluster that is not there is waited for a while; then a run names its address."""
    (port,) = free_ports(1)
    address = f"127.0.0.1:{port}"
    scene.rewrite(lambda document: document["clusters"]["source"].update(bootstrap_servers=address))
    with scene.run("--until", "caught-up") as driver:
        assert driver.wait() == 10, driver.said
        assert_told(driver, address, "advertised listeners")


def test_unusable_configuration(scene: Scene) -> None:
    """A file that is no YAML is refused, with the line."""
    scene.configuration.write_text("clusters: [\n")
    with scene.run() as driver:
        assert driver.wait() == 2, driver.said
        assert_told(driver, f"{scene.configuration.name}:2", "indentation")


def test_wrong_password(scene: Scene, secured: LocalCluster) -> None:
    """A login that is refused names the user and where to look, and never the password."""
    security = {
        "protocol": "SASL_SSL",
        "mechanism": "SCRAM-SHA-512",
        "username": "isthmus",
        "password": "no-such-secret",
        "tls": {"ca_file": str(secured.credentials.ca_file)},
    }
    source = {"bootstrap_servers": secured.bootstrap_servers, "security": security}
    scene.rewrite(lambda document: document["clusters"].update(source=source))
    with scene.run("--until", "caught-up") as driver:
        assert driver.wait() == 11, driver.said
        assert_told(driver, "isthmus", "security.password")
        assert "no-such-secret" not in driver.said


def named(driver: Driver) -> str:
    """How a run is told from others."""
    return f"the controller on {socket.gethostname()}, pid {driver.process.pid}, started "


def assert_told(driver: Driver, *words: str) -> None:
    """What went wrong is told with what to do, without a traceback, and nothing is left running."""
    for word in words:
        assert word in driver.said, driver.said
    assert "Traceback" not in driver.said, driver.said
    driver.assert_alone()
