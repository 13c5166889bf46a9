"""What status, plan and run say of the same link agrees, whatever is paused, away, new, excluded or refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from isthmus import config
from isthmus.cli.app import app
from isthmus.cli.links.run import show_outcome
from isthmus.cli.output import OutputFormat
from isthmus.errors import ConfigError, GateNotMet
from isthmus.fabric.fabric import Fabric
from isthmus.local import LocalCluster
from isthmus.model.lane import LaneState
from isthmus.model.links.outcome import RunOutcome
from isthmus.model.links.progress import LinkProgress, TopicProgress
from isthmus.model.state import ControllerState, LinkState
from isthmus.model.text.plain import plain
from isthmus.status.status import StatusReader
from testing import verbs
from testing.records import topics
from testing.records.topics import Given
from testing.runs.running import Running, ends, patient, running

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("signals")]

NOWHERE = "127.0.0.1:1"
COPIED, NEW, REFUSED = 5, 7, 3
"""What is left to copy of each topic."""


def records(count: int) -> list[Given]:
    """Small records."""
    return [Given(b"key", b"value %d" % n, [], topics.SEPTEMBER + n) for n in range(count)]


@dataclass(frozen=True)
class Scene:
    """A link with a topic that was mirrored before, one that is new, one that is refused, and one excluded since."""

    folder: Path
    stem: str
    east: LocalCluster
    west: LocalCluster

    def fabric(self, spark: SparkSession | None = None, **changes: Any) -> Fabric:
        """A fabric of the link's file, written anew with changes."""
        configuration = replace(config.load(self.file(**changes)), timings=patient(arrival_s=1.0))
        return Fabric(configuration, spark=spark)

    def file(self, *, away: str | None = None, exclude: bool = True, refused: bool = True) -> Path:
        """The configuration, with one cluster at an address where nobody is."""
        addresses = {"east": self.east.bootstrap_servers, "west": self.west.bootstrap_servers}
        left_out = [
            f"{self.stem}.{name}" for name, is_out in (("excluded", exclude), ("refused", not refused)) if is_out
        ]
        path = self.folder / "isthmus.yaml"
        document = {
            "clusters": {
                alias: {"bootstrap_servers": NOWHERE if alias == away else address}
                for alias, address in addresses.items()
            },
            "links": [
                {
                    "name": self.stem,
                    "source": "east",
                    "target": "west",
                    "topics": {"include": [f"{self.stem}.*"], "exclude": left_out},
                }
            ],
        }
        path.write_text(yaml.safe_dump(document))
        return path

    def call(self, *arguments: str, **changes: Any) -> tuple[int, Any]:
        """The exit code of a command, and what it printed as JSON."""
        path = self.file(**changes)
        result = CliRunner().invoke(app, [*arguments, "-c", str(path), "-o", "json"])
        return result.exit_code, json.loads(result.stdout)

    def name(self, topic: str) -> str:
        return f"{self.stem}.{topic}"


@pytest.fixture
def scene(
    tmp_path: Path, east: LocalCluster, west: LocalCluster, spark: SparkSession, topic: Callable[[str], str]
) -> Scene:
    """The link after one run, and some records later."""
    made = Scene(tmp_path, topic("states"), east, west)
    for name in ("copied", "excluded", "refused"):
        topics.create(east, made.name(name))
        topics.produce(east, made.name(name), records(3))
    topics.create(west, made.name("refused"), compression_type="lz4")
    assert made.fabric(spark, exclude=False).run(until="caught-up").exit_code == 1
    topics.produce(east, made.name("copied"), records(COPIED))
    topics.create(east, made.name("new"))
    topics.produce(east, made.name("new"), records(NEW))
    return made


def by_name(found: list[dict[str, Any]], stem: str) -> dict[str, dict[str, Any]]:
    """Topics by their names without the stem."""
    return {topic["topic"].removeprefix(f"{stem}."): topic for topic in found}


def states(found: dict[str, dict[str, Any]]) -> dict[str, str]:
    """The state of each topic."""
    return {name: topic["state"] for name, topic in found.items()}


def lags(found: dict[str, dict[str, Any]]) -> dict[str, int | None]:
    """The lag of each topic."""
    return {name: topic["lag_records"] for name, topic in found.items()}


def test_without_a_controller(scene: Scene, spark: SparkSession) -> None:
    """Paused or not, with either cluster away or none: all commands tell the same topics, lags, states and codes."""
    left = {"copied": COPIED, "new": NEW, "refused": REFUSED}
    for paused in (False, True):
        if paused:
            assert CliRunner().invoke(app, ["pause", scene.stem, "-c", str(scene.file())]).exit_code == 0
        calm = LaneState.PAUSED if paused else LaneState.STOPPED

        code, ((status,), plan) = both(scene)
        assert (code, status["state"], status["controller"]["state"]) == (1, str(calm), "NONE")
        found = by_name(status["topics"], scene.stem)
        assert states(found) == {"copied": calm, "new": calm, "refused": "REFUSED"}
        assert (lags(found), status["lag_records"]) == (left, sum(left.values()))
        assert min(topic["lag_seconds"] for topic in found.values()) > 0
        planned = by_name(plan["links"][0]["topics"], scene.stem)
        assert planned.keys() == found.keys()
        assert {name: topic["action"] for name, topic in planned.items()} == {
            "copied": "copy",
            "new": "create",
            "refused": "refuse",
        }
        assert [planned[name]["records_to_copy"] for name in ("copied", "new")] == [COPIED, NEW]
        assert plan["links"][0]["no_longer_mirrored"] == [scene.name("excluded")]

        # The source is away: what the target has is known now, what the source had from the run before.
        code, ((status,), plan) = both(scene, away="east")
        assert (code, status["state"], "does not answer" in status["problem"]["message"]) == (10, "UNAVAILABLE", True)
        found = by_name(status["topics"], scene.stem)
        gone = "PAUSED" if paused else "SOURCE_UNAVAILABLE"
        assert states(found) == {"copied": gone, "refused": "REFUSED"}
        (partition,) = found["copied"]["partitions"]
        assert (partition["target_end"], partition["source_end"]) == (3, 3)
        assert partition["target_end_age_seconds"] < partition["source_end_age_seconds"]
        assert (found["refused"]["lag_records"], status["lag_records"]) == (None, None)
        assert (plan["links"][0]["topics"], plan["links"][0]["problem"] is not None) == ([], True)

        # The target is away, and the ledger with it: only the source is known.
        code, ((status,), plan) = both(scene, away="west")
        assert (code, status["state"], status["controller"]["state"]) == (10, "UNAVAILABLE", "UNKNOWN")
        found = by_name(status["topics"], scene.stem)
        assert set(states(found).values()) == {"TARGET_UNAVAILABLE"}
        assert (set(lags(found).values()), status["lag_records"]) == ({None}, None)
        assert {topic["lag_seconds"] for topic in found.values()} == {None}
        assert found["copied"]["source_end"] == 3 + COPIED
        assert plan["links"][0]["problem"] is not None

        for away in ("east", "west"):
            outcome = scene.fabric(spark, away=away).run(until="caught-up")
            assert (outcome.is_caught_up, outcome.exit_code, outcome.links[0].state) == (False, 10, LinkState.FAILED)
            assert plain(outcome)["links"][0]["lag_records"] is None


def both(scene: Scene, **changes: Any) -> tuple[int, tuple[Any, Any]]:
    """What status and plan print; they end with the same code."""
    status_code, status = scene.call("status", **changes)
    plan_code, plan = scene.call("plan", **changes)
    assert plan_code == status_code
    return status_code, (status, plan)


def test_runs_say_what_they_left(scene: Scene, spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    """A run that was to catch up says what it did not copy and why; status and plan say the same after it."""
    CliRunner().invoke(app, ["pause", scene.stem, "--topic", scene.name("copied"), "-c", str(scene.file())])

    outcome = scene.fabric(spark).run(until="caught-up")
    assert (outcome.is_caught_up, outcome.exit_code, outcome.records) == (False, 1, NEW)
    assert_same(outcome, scene)
    assert f"not caught up: {scene.name('copied')} is PAUSED, lag {COPIED}" in last_line(outcome, scene, capsys)

    outcome = scene.fabric(spark, refused=False).run(until="caught-up")
    assert (outcome.is_caught_up, outcome.exit_code, outcome.records) == (False, GateNotMet.exit_code, 0)
    assert_same(outcome, scene, refused=False)

    CliRunner().invoke(app, ["resume", scene.stem, "--topic", scene.name("copied"), "-c", str(scene.file())])
    outcome = scene.fabric(spark, refused=False).run(until="caught-up")
    assert (outcome.is_caught_up, outcome.exit_code, outcome.records) == (True, 0, COPIED)
    assert_same(outcome, scene, refused=False)
    assert last_line(outcome, scene, capsys).endswith(", caught up")
    assert scene.call("plan", refused=False)[1]["has_changes"] is False


def test_what_is_excluded_can_be_forgotten(scene: Scene) -> None:
    """The ledger forgets topics that are no longer selected, when told to, and only those."""
    excluded = scene.name("excluded")
    assert scene.call("forget", scene.stem, "--dry-run")[1][0]["topic"] == excluded
    assert scene.call("plan")[1]["links"][0]["no_longer_mirrored"] == [excluded]
    for other, reason in ((scene.name("copied"), "Exclude it first"), (f"x{excluded}", f"Did you mean {excluded}?")):
        with pytest.raises(ConfigError) as refused:
            scene.fabric().forget(scene.stem, [other])
        assert reason in refused.value.hint
    assert [each["topic"] for each in scene.call("forget", scene.stem, excluded, "--yes")[1]] == [excluded]
    assert scene.call("plan")[1]["links"][0]["no_longer_mirrored"] == []
    assert scene.call("forget", scene.stem)[1] == []


def last_line(outcome: RunOutcome, scene: Scene, capsys: pytest.CaptureFixture[str]) -> str:
    """The last line of a run, with the names of topics alone."""
    capsys.readouterr()
    show_outcome(outcome, OutputFormat.TABLE)
    return capsys.readouterr().err.splitlines()[-1].replace(f"{scene.stem}/", "")


def assert_same(outcome: RunOutcome, scene: Scene, **changes: Any) -> None:
    """Status shows the run's topics as the run did."""
    code, (status,) = scene.call("status", **changes)
    (link,) = plain(outcome)["links"]
    assert (status["state"], code == 1) == (link["state"], outcome.exit_code == 1)
    told, shown = by_name(link["topics"], scene.stem), by_name(status["topics"], scene.stem)
    assert (states(told), lags(told)) == (states(shown), lags(shown))
    assert (status["lag_records"], link["caught_up"]) == (link["lag_records"], outcome.is_caught_up)


def test_with_a_controller(scene: Scene, spark: SparkSession) -> None:
    """Status tells of a link that runs what its controller shows: active, impaired by a
    topic, paused with its lag, or away.
    """
    configuration = scene.fabric().configuration
    (link,) = configuration.links
    configuration = replace(configuration, links=(replace(link, topics_interval_s=0.3),))

    def topic_of(links: tuple[LinkProgress, ...], name: str) -> TopicProgress | None:
        return next((t for link in links for t in link.topics if t.topic == scene.name(name)), None)

    async def scenario() -> None:
        async with running(configuration, spark) as run, StatusReader(configuration.links) as reader:

            async def agree(state: LaneState, lag: int) -> bool:
                (status,), own = await reader.read(), topic_of(run.links, "copied")
                seen = topic_of((status,), "copied")
                found = [(t.state, t.lag_records) for t in (own, seen) if t is not None]
                return found == [(state, lag)] * 2 and status.controller.state is ControllerState.ALIVE

            await run.until(lambda: agree(LaneState.ACTIVE, 0))
            await run.until(lambda: is_refused(run, scene))
            await run.until(lambda: [link.state for link in run.links] == [LinkState.IMPAIRED])
            (status,) = await reader.read()
            assert (status.state, status.trouble_in_words) == (LinkState.IMPAIRED, "1 topic REFUSED")
            await unavailable(LaneState.SOURCE_UNAVAILABLE)
            plan = await asyncio.to_thread(Fabric(configuration).plan)
            assert [(t.topic, t.has_refusals) for t in plan.links[0].topics] == [
                (scene.name("copied"), False),
                (scene.name("new"), False),
                (scene.name("refused"), True),
            ]
            await verbs.pause(configuration.links[0])
            await run.until(lambda: agree(LaneState.PAUSED, 0))
            await run.until_resting(configuration.links[0], scene.name("copied"))
            await asyncio.to_thread(topics.produce, scene.east, scene.name("copied"), records(4))
            await run.until(lambda: agree(LaneState.PAUSED, 4))
            assert [link.state for link in run.links] == [LinkState.PAUSED]
            assert await ends(scene.west, scene.name("copied")) == [3 + COPIED]
            await unavailable(LaneState.PAUSED)
            (link,) = (await run.end()).links
            assert (link.state, link.controller.state) == (LinkState.PAUSED, ControllerState.NONE)

    async def unavailable(state: LaneState) -> None:
        """Look at the link from where its source, or its target, cannot be reached while its controller runs."""
        (link,) = configuration.links
        without_source = replace(link, source=replace(link.source, bootstrap_servers=(NOWHERE,)))
        without_target = replace(link, target=replace(link.target, bootstrap_servers=(NOWHERE,)))
        async with StatusReader((without_source,)) as reader:
            (status,) = await reader.read()
        seen = topic_of((status,), "copied")
        assert (status.state, status.controller.state) == (LinkState.UNAVAILABLE, ControllerState.ALIVE)
        assert seen is not None
        assert (seen.state, seen.partitions[0].target_end) == (state, 3 + COPIED)
        async with StatusReader((without_target,)) as reader:
            (status,) = await reader.read()
        seen = topic_of((status,), "copied")
        # The ledger is at the target: neither pauses nor controllers are known without it.
        assert (status.state, status.controller.state) == (LinkState.UNAVAILABLE, ControllerState.UNKNOWN)
        assert seen is not None
        assert (seen.state, seen.lag_records) == (LaneState.TARGET_UNAVAILABLE, -1)

    asyncio.run(scenario())


def is_refused(run: Running, scene: Scene) -> bool:
    return run.state_of(scene.name("refused")) is LaneState.REFUSED
