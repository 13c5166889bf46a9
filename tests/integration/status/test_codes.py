"""For one cause `plan`, `status` and `run` give one code: the exit code of the commands, and that of the problem."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka.admin import AclOperation, ResourceType
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from isthmus import config
from isthmus.cli.app import app
from isthmus.errors import IsthmusError, error_classes
from isthmus.fabric.fabric import Fabric
from isthmus.ledger.documents.kinds import LinkDocument
from isthmus.ledger.topic import LEDGER_TOPIC
from isthmus.local import LocalCluster
from isthmus.model.text.plain import plain
from testing.brokers.acls import denied
from testing.records import topics
from testing.records.topics import Given
from testing.runs.running import patient

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("signals")]

NOWHERE = "127.0.0.1:1"
PROMPT = patient(arrival_s=1.0, stuck_s=1.0)
EXIT_CODES = {each.error_code: each.exit_code for each in error_classes()}
Section = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Scene:
    """A topic of a name of its own at the source, links that copy it, and the clusters there are."""

    name: str
    path: Path
    spark: SparkSession
    east: LocalCluster
    west: LocalCluster
    secured: LocalCluster

    def link(self, source: str, target: str, *, name: str = "") -> Section:
        """A link of the topic."""
        return {"name": name or self.name, "source": source, "target": target, "topics": {"include": [self.name]}}

    def login(self, **changes: Any) -> Section:
        """The secured cluster, as an ordinary user of it reaches it."""
        tls = {"ca_file": str(self.secured.credentials.ca_file)}
        password = self.secured.credentials.password("isthmus").reveal()
        user = {"mechanism": "SCRAM-SHA-512", "username": "isthmus", "password": password}
        security = {"protocol": "SASL_SSL", **user, "tls": tls, **changes}
        return {"bootstrap_servers": self.secured.bootstrap_servers, "security": security}

    def configure(self, *links: Section, **clusters: Section) -> None:
        """Write the file: these links between these clusters, and east and west where they are not given."""
        known = {each.name: {"bootstrap_servers": each.bootstrap_servers} for each in (self.east, self.west)}
        self.path.write_text(yaml.safe_dump({"clusters": {**known, **clusters}, "links": [*links]}))

    def call(self, *words: str) -> tuple[int, Any]:
        """The exit code of a command, and what it prints as JSON."""
        result = CliRunner().invoke(app, [*words, "-c", str(self.path), "-o", "json"])
        return result.exit_code, json.loads(result.stdout) if result.stdout else None

    def run(self) -> tuple[int, Any]:
        """The exit code of a run, and what it prints as JSON."""
        try:
            configuration = replace(config.load(self.path), timings=PROMPT)
            outcome = Fabric(configuration, spark=self.spark).run(until="caught-up")
        except IsthmusError as error:
            return error.exit_code, None
        return outcome.exit_code, plain(outcome)["links"]


@pytest.fixture
def scene(
    tmp_path: Path,
    east: LocalCluster,
    west: LocalCluster,
    secured: LocalCluster,
    spark: SparkSession,
    topic: Callable[[str], str],
) -> Scene:
    """Ten records at east, and nothing of them elsewhere."""
    made = Scene(topic("codes"), tmp_path / "isthmus.yaml", spark, east, west, secured)
    topics.create(east, made.name)
    topics.produce(east, made.name, [Given(b"k", b"v", [], topics.SEPTEMBER)] * 10)
    return made


Cause = Callable[[Scene], contextlib.AbstractContextManager[None]]


@contextlib.contextmanager
def source_away(scene: Scene) -> Iterator[None]:
    scene.configure(scene.link("east", "west"), east={"bootstrap_servers": NOWHERE})
    yield


@contextlib.contextmanager
def target_away(scene: Scene) -> Iterator[None]:
    scene.configure(scene.link("east", "west"), west={"bootstrap_servers": NOWHERE})
    yield


@contextlib.contextmanager
def wrong_password(scene: Scene) -> Iterator[None]:
    scene.configure(scene.link("east", "secured"), secured=scene.login(password="no-such-secret"))
    yield


@contextlib.contextmanager
def other_protocol(scene: Scene) -> Iterator[None]:
    tls = {"protocol": "SSL", "tls": {"ca_file": str(scene.secured.credentials.ca_file)}}
    plain = {"bootstrap_servers": scene.east.bootstrap_servers, "security": tls}
    scene.configure(scene.link("east", "west"), east=plain)
    yield


@contextlib.contextmanager
def unreadable_ledger(scene: Scene) -> Iterator[None]:
    scene.configure(scene.link("east", "secured"), secured=scene.login())
    assert scene.run()[0] == 0
    with denied(scene.secured, ResourceType.TOPIC, LEDGER_TOPIC, AclOperation.READ):
        yield


@contextlib.contextmanager
def newer_ledger(scene: Scene) -> Iterator[None]:
    scene.configure(scene.link("east", "west"))
    assert scene.run()[0] == 0
    key = f"{LinkDocument.KIND}/{scene.name}".encode()
    topics.produce(scene.west, LEDGER_TOPIC, [Given(key, b'{"schema_version": 99}', [], topics.SEPTEMBER)])
    try:
        yield
    finally:
        topics.produce(scene.west, LEDGER_TOPIC, [Given(key, None, [], topics.SEPTEMBER)])


@contextlib.contextmanager
def into_itself(scene: Scene) -> Iterator[None]:
    twin = {"bootstrap_servers": scene.east.bootstrap_servers.replace("127.0.0.1", "localhost")}
    scene.configure(scene.link("east", "twin"), twin=twin)
    yield


@contextlib.contextmanager
def other_source(scene: Scene) -> Iterator[None]:
    scene.configure(scene.link("east", "west"))
    assert scene.run()[0] == 0
    topics.create(scene.secured, scene.name)
    scene.configure(scene.link("east", "west"), east=scene.login())
    yield


@contextlib.contextmanager
def two_causes(scene: Scene) -> Iterator[None]:
    """No link can run, each for a reason of its own: the first one counts."""
    away = {"bootstrap_servers": NOWHERE}
    first = scene.link("east", "secured", name=f"{scene.name}-b")
    second = scene.link("east", "away", name=f"{scene.name}-a")
    scene.configure(first, second, secured=scene.login(password="no-such-secret"), away=away)
    yield


@contextlib.contextmanager
def some_away(scene: Scene) -> Iterator[None]:
    """One of two links cannot run."""
    scene.configure(
        scene.link("east", "away", name=f"{scene.name}-a"),
        scene.link("east", "west", name=f"{scene.name}-b"),
        away={"bootstrap_servers": NOWHERE},
    )
    yield


@contextlib.contextmanager
def refused_topic(scene: Scene) -> Iterator[None]:
    topics.create(scene.west, scene.name, compression_type="lz4")
    scene.configure(scene.link("east", "west"))
    # What is refused a run writes down, for `status` to show.
    assert scene.run()[0] == 1
    yield


@contextlib.contextmanager
def broken_file(scene: Scene) -> Iterator[None]:
    scene.configure({**scene.link("east", "west"), "sauce": "east"})
    yield


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A cause, the code it has, and whether `status` is to have it too: what a run would refuse it does not judge."""

    cause: Cause
    code: str | None = None
    exit_code: int = 0
    is_state: bool = True


CASES = {
    "source away": Case(cause=source_away, code="ISTH-UNREACHABLE"),
    "target away": Case(cause=target_away, code="ISTH-UNREACHABLE"),
    "wrong password": Case(cause=wrong_password, code="ISTH-AUTHENTICATION"),
    "other protocol": Case(cause=other_protocol, code="ISTH-AUTHENTICATION"),
    "unreadable ledger": Case(cause=unreadable_ledger, code="ISTH-NOT-AUTHORIZED"),
    "newer ledger": Case(cause=newer_ledger, code="ISTH-PLAN-REFUSED"),
    "into itself": Case(cause=into_itself, code="ISTH-PLAN-REFUSED", is_state=False),
    "other source": Case(cause=other_source, code="ISTH-PLAN-REFUSED", is_state=False),
    "two causes": Case(cause=two_causes, code="ISTH-AUTHENTICATION"),
    "some away": Case(cause=some_away, code="ISTH-UNREACHABLE", exit_code=1),
    "refused topic": Case(cause=refused_topic, exit_code=1),
    "broken file": Case(cause=broken_file, exit_code=EXIT_CODES["ISTH-CONFIG"]),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_one_cause_has_one_code(scene: Scene, case: Case) -> None:
    """Whichever command meets it, however `status` sorts and whatever it leaves out."""
    expected = case.exit_code or EXIT_CODES[case.code or ""]
    with case.cause(scene):
        planned_code, planned = scene.call("plan")
        shown_code, shown = scene.call("status")
        narrow_code, _ = scene.call("status", "--problems", "--sort", "state")
        run_code, run = scene.run()
    assert (planned_code, run_code) == (expected, expected)
    assert shown_code == narrow_code == (expected if case.is_state else 0)
    if case.code is not None:
        # Where what is declared cannot be read, the commands end before they have anything to show.
        told = [planned and planned["links"], run, shown if case.is_state else None]
        assert {links[0]["problem"]["code"] for links in told if links} == {case.code}
