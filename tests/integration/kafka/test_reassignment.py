"""Partitions moved to other brokers of a real cluster, and how far replicas are behind meanwhile."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (
    AclOperation,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from isthmus.clusters.reassigning import Reassignment, ReassignmentPlan, ReassignmentState
from isthmus.config.assignments import write_assignments
from isthmus.errors import NotAuthorized
from isthmus.fabric.fabric import Administration, Reassigning
from isthmus.local import LocalCluster
from isthmus.local.tools import kafka_tool
from isthmus.model.configuration import Configuration
from isthmus.model.kafka.assignment import Assignment, Move
from isthmus.web.access.tokens import Role
from testing.brokers.acls import CLUSTER, denied
from testing.patience import TERM_S
from testing.records import topics
from testing.records.topics import Given
from testing.rest.asking import serving
from testing.runs import command
from testing.runs.running import link_of

pytestmark = pytest.mark.integration

Run = Callable[..., "subprocess.CompletedProcess[str]"]
COMMAND = ("cluster", "reassign", "east3")
RECORDS, RECORD_BYTES = 300, 10_000


@pytest.fixture
def moving(east3: LocalCluster, topic: Callable[[str], str]) -> Iterator[str]:
    """A topic of two partitions that are on broker 1 alone, with 3 MB in the first."""
    name = topic("moving")
    admin = AdminClient({"bootstrap.servers": east3.bootstrap_servers})
    admin.create_topics([NewTopic(name, 2, replica_assignment=[[1], [1]])])[name].result(TERM_S)
    topics.produce(
        east3, name, [Given(None, b"%d" % n + bytes(RECORD_BYTES), [], topics.SEPTEMBER) for n in range(RECORDS)]
    )
    yield name
    admin.delete_topics([name])[name].result(TERM_S)


@pytest.fixture
def run(east3: LocalCluster, tmp_path: Path) -> Run:
    """Runs `isthmus cluster reassign east3` to its end."""
    config = tmp_path / "isthmus.yaml"
    config.write_text(json.dumps({"clusters": {"east3": {"bootstrap_servers": east3.bootstrap_servers}}}))

    def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return command.run(*COMMAND, "-c", config, *arguments)

    return _run


def until(condition: Callable[[], Any]) -> Any:
    """Wait until it is something, and what it is."""
    deadline = time.monotonic() + TERM_S
    while not (found := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return found


def throttles(cluster: LocalCluster, name: str) -> set[str]:
    """The bounds of moves that librdkafka sees: of the topic, and of each broker."""
    admin = AdminClient({"bootstrap.servers": cluster.admin_bootstrap_servers})
    resources = [ConfigResource(ResourceType.TOPIC, name)]
    resources += [ConfigResource(ResourceType.BROKER, str(broker.node_id)) for broker in cluster.brokers]
    found = [(where, admin.describe_configs([where])[where].result(TERM_S)) for where in resources]
    return {
        f"{where.name} {key}={entry.value}"
        for where, entries in found
        for key, entry in entries.items()
        if "throttled" in key and entry.value and not entry.is_default
    }


@contextmanager
def begun(config: Path, plan: Path) -> Iterator[None]:
    """`--execute` at a rate at which nothing comes about, until `with` ends: then it is killed."""
    words = (*COMMAND, "-c", config, "--execute", plan, "--throttle", "1kB", "--yes")
    with command.start(*words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            yield
        finally:
            process.kill()


def unbound(cluster: LocalCluster) -> None:
    """Let brokers copy as fast as they can; the lists of topics stay."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    for broker in ("1", "2", "3"):
        rates = [
            ConfigEntry(f"{side}.replication.throttled.rate", "1000000000", incremental_operation=AlterConfigOpType.SET)
            for side in ("leader", "follower")
        ]
        where = ConfigResource(ResourceType.BROKER, broker, incremental_configs=rates)
        admin.incremental_alter_configs([where])[where].result(TERM_S)


def test_a_move_is_bounded_seen_and_given_up(east3: LocalCluster, moving: str) -> None:
    """While it lasts brokers say so, the new replica is behind, and the bound is there; then all is as before."""
    known, cluster = Reassigning(east3.cluster()), Administration(east3.cluster())
    plan = known.compare([Assignment(moving, 0, (2,)), Assignment(moving, 1, (1,))])
    assert [(move.partition, move.before, move.after) for move in plan.moves] == [(0, (1,), (2,))]
    done: list[Reassignment] = []
    thread = threading.Thread(
        target=lambda: done.extend(known.execute(plan, throttle_bytes_per_s=1000)), name="move", daemon=True
    )
    thread.start()

    (seen,) = until(lambda: [one for one in known.underway() if one.topic == moving])
    assert (seen.before, seen.after, seen.state) == ((1,), (2,), ReassignmentState.UNDERWAY)
    state = until(lambda: next((p for p in cluster.topics([moving]).partitions if dict(p.behind).get(2)), None))
    assert (state.adding, state.removing) == ((2,), (1,))
    assert 0 < dict(state.behind)[2] <= RECORDS
    assert {"1 leader.replication.throttled.rate=1000", "2 follower.replication.throttled.rate=1000"} <= throttles(
        east3, moving
    )

    (given_up,) = known.cancel([moving])
    assert given_up.state is ReassignmentState.GIVEN_UP
    thread.join(TERM_S)
    assert [(one.state, one.detail) for one in done] == [(ReassignmentState.GIVEN_UP, "it is on 1 now")]
    until(lambda: not throttles(east3, moving))


@pytest.mark.parametrize("way", ["moved", "given up"])
def test_bounds_that_a_killed_call_left_are_taken_away(
    east3: LocalCluster, moving: str, tmp_path: Path, run: Run, way: str
) -> None:
    """Though brokers have ended meanwhile, so that nothing is left to be moved, or to be given up."""
    known, plan = Reassigning(east3.cluster()), tmp_path / "plan.json"
    plan.write_text(write_assignments([Assignment(moving, 0, (2, 1)), Assignment(moving, 1, (1,))]))
    with begun(tmp_path / "isthmus.yaml", plan):
        until(known.underway)
    if way == "moved":
        unbound(east3)
        until(lambda: not known.underway())
    else:
        tool = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
        at = ("--bootstrap-server", east3.bootstrap_servers, "--reassignment-json-file", str(plan))
        kafka_tool(tool, *at, "--cancel", "--preserve-throttles")
        assert known.underway() == ()
    assert throttles(east3, moving)

    again = run("--cancel") if way == "given up" else run("--execute", str(plan), "--yes")

    assert again.returncode == 0, again.stderr
    until(lambda: not throttles(east3, moving))


@pytest.mark.usefixtures("run")
def test_a_repeated_call_waits_for_what_needs_no_move(east3: LocalCluster, moving: str, tmp_path: Path) -> None:
    """Brokers list a partition as they shall have it before the new replica has anything; its bound stays till then."""
    plan = tmp_path / "plan.json"
    plan.write_text(write_assignments([Assignment(moving, 0, (2, 1))]))
    known = Reassigning(east3.cluster())
    with begun(tmp_path / "isthmus.yaml", plan):
        until(known.underway)
    # Brokers learn of a change a moment after the controller.
    again = until(lambda: (plan := known.compare([Assignment(moving, 0, (2, 1))])).moves == () and plan)
    told: list[tuple[int, int]] = []
    done: list[Reassignment] = []
    thread = threading.Thread(
        target=lambda: done.extend(known.execute(again, on_progress=lambda *each: told.append(each))), daemon=True
    )
    thread.start()

    assert until(lambda: told)[0] == (0, 1)
    assert throttles(east3, moving)
    unbound(east3)
    thread.join(TERM_S)
    assert [one.state for one in done] == [ReassignmentState.MOVED]
    until(lambda: not throttles(east3, moving))


def test_a_move_that_is_refused_leaves_no_bound(secured: LocalCluster, topic: Callable[[str], str]) -> None:
    """The bound is set first, and whoever may set it need not be allowed to move anything."""
    name = topic("moving")
    admin = AdminClient({"bootstrap.servers": secured.admin_bootstrap_servers})
    admin.create_topics([NewTopic(name, 1)])[name].result(TERM_S)
    here = (Assignment(name, 0, (1,)),)
    plan = ReassignmentPlan(before=here, after=here, moves=(Move(name, 0, (1,), (1,)),))

    with denied(secured, *CLUSTER, AclOperation.ALTER), pytest.raises(NotAuthorized, match="ALTER"):
        Reassigning(secured.cluster()).execute(plan, throttle_bytes_per_s=1000)

    until(lambda: not throttles(secured, name))


def test_a_plan_is_carried_out(east3: LocalCluster, moving: str, tmp_path: Path, run: Run) -> None:
    """From the command line, by a file that Kafka's own tool reads, and back by the one that is kept."""
    plan = tmp_path / "plan.json"
    planned = run("--plan", "--topic", moving, "--replicas", "2", "--to", str(plan))
    assert planned.returncode == 0, planned.stderr
    assert "2 partitions of 2 would change, with 2 replicas to copy" in planned.stderr + planned.stdout
    dry = run("--execute", str(plan), "--dry-run", "-o", "json")
    assert {row["state"] for row in json.loads(dry.stdout)} == {"planned"}

    moved = run("--execute", str(plan), "--throttle", "100 MB", "--yes", "-o", "json")

    assert moved.returncode == 0, moved.stderr
    assert {(row["state"], len(row["after"])) for row in json.loads(moved.stdout)} == {("moved", 2)}
    tool = ("org.apache.kafka.tools.reassign.ReassignPartitionsCommand", "--bootstrap-server", east3.bootstrap_servers)
    verified = kafka_tool(*tool, "--reassignment-json-file", str(plan), "--verify")
    assert verified.stdout.count("is completed") == 2, verified.stdout
    assert throttles(east3, moving) == set()
    back = run("--execute", f"{plan}.before", "--yes", "-o", "json")
    assert {tuple(row["after"]) for row in json.loads(back.stdout)} == {(1,)}
    assert run("-o", "json").stdout.strip() == "[]"


def test_partitions_are_moved_and_leaders_elected_over_rest(east3: LocalCluster, moving: str, tmp_path: Path) -> None:
    """By an admin: planned, tried, moved as an operation; what is on its way is seen and can be given up."""
    cluster = east3.cluster()
    link = link_of(cluster, replace(cluster, alias="other"), moving)
    with serving(Configuration(clusters=(cluster, link.target), links=(link,)), tmp_path) as served:
        at = "/v1/clusters/east3/reassignments"
        plan = served.read(f"{at}/plan?topic={moving}&broker=2&broker=3&replicas=1")
        assert sorted(tuple(each["replicas"]) for each in plan["partitions"]) == [(2,), (3,)]
        assert served.ask("POST", at, Role.OPERATOR, json=plan).status_code == 403
        assert served.ask("POST", at, json={"partitions": []}).status_code == 422
        tried = served.ended(served.begin(f"{at}?dry_run=true", json=plan))
        assert {each["state"] for each in tried["result"]} == {"planned"}
        moved = served.ended(served.begin(at, json={**plan, "throttle_bytes_per_s": 100_000_000}))
        assert {each["state"] for each in moved["result"]} == {"moved"}, moved
        assert moved["progress"][-1]["step"] == "2 of 2 partitions have moved"
        back = {"topic": moving, "partition": 0, "replicas": [1]}
        slow = served.begin(at, json={"partitions": [back], "throttle_bytes_per_s": 1000})
        assert until(lambda: [each for each in served.read(at) if each["topic"] == moving])
        (given_up,) = served.ask("POST", f"{at}:cancel?topic={moving}").json()
        assert given_up["state"] == "given up"
        assert {each["state"] for each in served.ended(slow)["result"]} == {"given up"}
        elected = served.ask("POST", f"/v1/clusters/east3/leaders:elect?topic={moving}").json()
        assert {each["outcome"] for each in elected} == {"not-needed"}
        assert served.ask("POST", "/v1/clusters/nowhere/leaders:elect").status_code == 404
        assert served.ask("POST", "/v1/clusters/nowhere/reassignments", json=plan).status_code == 404


def test_what_cannot_be_moved_is_refused(east3: LocalCluster, moving: str, tmp_path: Path, run: Run) -> None:
    """A broker that is not there, and a partition that is not: nothing is begun."""
    known = Reassigning(east3.cluster())
    plan = tmp_path / "plan.json"
    for assignment, says in (
        (Assignment(moving, 0, (9,)), "east3 has no live broker 9"),
        (Assignment(moving, 5, (1,)), f"no partition {moving}-5"),
    ):
        plan.write_text(write_assignments([assignment]))
        refused = run("--execute", str(plan), "--yes")
        assert refused.returncode == 2
        assert says in refused.stderr
    assert run("--plan", "--cancel").returncode == 2
    assert [one for one in known.underway() if one.topic == moving] == []
