"""What a run of the command tells over HTTP, held against what librdkafka wrote, and read by Prometheus' own parser."""

from __future__ import annotations

import contextlib
import http.client
import json
import secrets
import signal
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import httpx2
import pytest
import trustme
from kafka.protocol.admin import AlterClientQuotasRequest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from isthmus.local import LocalCluster
from isthmus.local.probe import ask
from isthmus.metrics.catalogue import LATENCY, LINK_LAG, METRICS
from isthmus.web.access.tokens import Role, TokenFile
from testing.groups import consumers
from testing.patience import TERM_S
from testing.records import oracle, topics
from testing.records.topics import Given
from testing.runs import command
from testing.runs.command import Shell
from testing.values.monitoring import ALERTS, PANEL_QUERIES, RULES, filled_in
from testing.values.promql import Scrapes, Vector
from testing.values.standing import OPEN_METRICS, free_port

pytestmark = pytest.mark.integration

HOSTILE = 'g"r\\oup\n<b>{}'
SPARK = {"master": "local[2]", "lease_term_s": 20}
COUNTS = {0: 100, 1: 7, 2: 0}
"""Records of the first topic by partition."""


@dataclass(frozen=True, slots=True)
class Door:
    """Where the REST API beside a run answers over TLS, and what it asks for."""

    address: str
    token: str
    trusting: ssl.SSLContext

    def get(self, path: str) -> str:
        """What is answered to somebody who may look."""
        headers = {"Authorization": f"Bearer {self.token}"}
        answer = httpx2.get(f"https://{self.address}{path}", headers=headers, verify=self.trusting, timeout=TERM_S)
        assert answer.status_code == 200, answer.text
        return answer.text


@dataclass(slots=True)
class Asked:
    """A run that is asked how it does, and what it ever said."""

    shell: Shell
    port: int
    command: subprocess.Popen[str]
    door: Door
    scrapes: Scrapes = field(default_factory=Scrapes)

    def get(self, path: str, accept: str = "") -> tuple[int, str]:
        """The status and the body that are answered."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TERM_S)
        with contextlib.closing(connection):
            connection.request("GET", path, headers={"Accept": accept})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    def scrape(self) -> None:
        """Ask for all metrics once more."""
        self.scrapes.add(time.monotonic(), self.get("/metrics")[1])

    def afresh(self) -> Asked:
        """The same, as if it had never been asked."""
        return Asked(self.shell, self.port, self.command, self.door)

    def ask(self, query: str) -> Vector:
        """What a query finds in all that was scraped."""
        found = self.scrapes.ask(query)
        assert isinstance(found, dict)
        return found

    def value(self, query: str) -> float | None:
        """The one number that a query finds, `None` where there is none."""
        found = list(self.ask(query).values())
        assert len(found) <= 1, query
        return found[0] if found else None

    def until(self, condition: Callable[[], bool]) -> None:
        """Scrape until something is true."""
        deadline = time.monotonic() + TERM_S
        while True:
            assert self.command.poll() is None, self.command.communicate()
            assert time.monotonic() < deadline, self.get("/health")
            with contextlib.suppress(ConnectionRefusedError):
                self.scrape()
                if condition():
                    return
            time.sleep(0.2)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, east: LocalCluster, west: LocalCluster) -> Iterator[Asked]:
    """A run, asked by all tests of this module: two topics, of which one belongs to somebody else, and a group.

    Its leases are short, so that they follow one another. It follows its file, and serves other hosts too.
    """
    folder = tmp_path_factory.mktemp("metrics")
    shell = Shell(folder, east, west, f"metrics-{secrets.token_hex(4)}")
    stem = shell.stem
    topics.create(east, f"{stem}.a", partitions=len(COUNTS))
    for partition, count in COUNTS.items():
        topics.produce(east, f"{stem}.a", [now()] * count, partition=partition)
    for cluster, value in ((east, b"ours"), (west, b"theirs")):
        topics.create(cluster, f"{stem}.foreign")
        topics.produce(cluster, f"{stem}.foreign", [Given(b"k", value, [], topics.SEPTEMBER)])
    group = f"{stem}{HOSTILE}"
    consumers.commit(east, {group: {(f"{stem}.a", 0): 60}})
    (link,) = shell.links
    shell.links[0] = {**link, "groups": {"include": [f"{stem}*"]}, "on_data_gap": "continue"}
    shell.configure(links=shell.links, spark=SPARK)
    authority, tokens, trusting = trustme.CA(), TokenFile(folder / "tokens.json"), ssl.create_default_context()
    authority.configure_trust(trusting)
    pem = folder / "server.pem"
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(pem)
    port, served = free_port(), free_port()
    door = Door(f"127.0.0.1:{served}", tokens.create("alice", Role.VIEWER), trusting)
    metrics = ("--metrics", f"127.0.0.1:{port}", "--metrics-partitions")
    serve = (
        "--serve",
        f"0.0.0.0:{served}",
        "--tokens",
        str(tokens.path),
        "--tls-cert",
        str(pem),
        "--tls-key",
        str(pem),
    )
    with shell.start("run", "--follow-config", *metrics, *serve, "-o", "json") as command:
        yield Asked(shell, port, command, door)
        command.send_signal(signal.SIGTERM)
        command.communicate(timeout=TERM_S)


def now() -> Given:
    """A record of this moment."""
    return Given(b"k", b"v" * 100, [], int(time.time() * 1000))


def caught_up(run: Asked, records: int) -> Callable[[], bool]:
    """Whether so many records of the first topic were copied, and none is left."""
    topic = f'topic="{run.shell.stem}.a"'
    return lambda: (
        run.value(f"isthmus_records_replicated_total{{{topic}}}") == records
        and run.value(f"isthmus_replication_lag_records{{{topic}}}") == 0
    )


def test_counts_are_those_of_the_records_written(run: Asked, east: LocalCluster, west: LocalCluster) -> None:
    """Records, positions and lag by topic and by partition are what librdkafka produced and what the logs hold; tags
    of MirrorMaker 2's are labels here.
    """
    stem, total = run.shell.stem, sum(COUNTS.values())
    run.until(caught_up(run, total))
    labels = f'link="{stem}", source="east", target="west", topic="{stem}.a"'
    for partition, count in COUNTS.items():
        of = f'{labels}, partition="{partition}"'
        assert run.value(f"isthmus_partition_records_replicated_total{{{of}}}") == count
        assert run.value(f"isthmus_partition_position{{{of}}}") == count
        assert oracle.ends(west.bootstrap_servers, f"{stem}.a", partition).high == count
    assert (run.value(f"isthmus_bytes_replicated_total{{{labels}}}") or 0) > total * 10
    assert run.value("isthmus_link_records_replicated_total") == total
    assert run.value("isthmus_replication_latency_seconds_count") == total
    since = run.afresh()
    since.scrape()
    topics.produce(east, f"{stem}.a", [now()] * 43, partition=2)
    since.until(caught_up(since, total + 43))
    assert since.value(f"increase(isthmus_records_replicated_total{{{labels}}}[1h])") == 43
    run.until(lambda: run.value(f"isthmus_replication_lag_seconds{{{labels}}}") == 0)


def test_health_is_told(run: Asked) -> None:
    """Alive from the beginning, ready when the lanes are heard, and IMPAIRED: somebody else wrote to one topic."""
    run.until(lambda: run.get("/readyz")[0] == 200)
    assert run.get("/livez")[0] == 200

    def is_impaired() -> bool:
        status, body = run.get("/health")
        (link,) = json.loads(body)["links"]
        told = status, link["link"], link["state"], link["tasks"]["topics"]
        return told == (200, run.shell.stem, "IMPAIRED", "ACTIVE")

    # A lease that follows another says nothing for a moment.
    run.until(is_impaired)
    assert run.value("isthmus_up") == 1


def test_the_rest_api_beside_a_run_tells_what_the_run_tells(run: Asked) -> None:
    """Over TLS and with a token, as other hosts may ask as well: its metrics are those of the run, with what only a run
    knows, and its routes answer. Nobody is answered without a token.
    """
    labels = f'link="{run.shell.stem}",source="east",target="west",topic="{run.shell.stem}.a"'
    topic = f"isthmus_records_replicated_total{{{labels}}}"
    door = run.door
    run.until(
        lambda: any(line.startswith(topic) and not line.endswith(" 0.0") for line in door.get("/metrics").splitlines())
    )
    assert run.shell.stem in [each["link"] for each in json.loads(door.get("/v1/links"))]
    assert httpx2.get(f"https://{door.address}/v1/links", verify=door.trusting, timeout=TERM_S).status_code == 401


def told(run: Asked) -> list[str]:
    """The lines of all metrics."""
    return run.get("/metrics")[1].splitlines()


def test_every_metric_of_the_catalogue_has_a_series(run: Asked) -> None:
    """What docs/metrics.md lists, made of the catalogue, is what a run tells, and nothing else begins with our name.
    The lag of the whole link is unknown beside a topic of which nobody knows how far it is right.
    """
    listed = {metric.name for metric in METRICS} - {LINK_LAG.name}

    def found() -> set[str]:
        families = text_string_to_metric_families(run.get("/metrics", OPEN_METRICS)[1])
        names = {sample.name for family in families for sample in family.samples}
        return {name.removesuffix("_bucket") for name in names if name.startswith("isthmus_")}

    run.until(lambda: listed <= found())
    assert {name for name in found() - listed if not name.startswith(f"{LATENCY.name}_")} == set()


def test_every_query_finds_what_a_run_tells(run: Asked) -> None:
    """Of the dashboard and of the alerts: each selector finds a series, and the whole gives an answer, once a lease has
    ended.
    """
    run.until(lambda: (run.value("isthmus_worker_cpu_seconds_total") or 0) > 0)
    for title, query in [*PANEL_QUERIES, *((rule["alert"], rule["expr"]) for rule in RULES)]:
        for selector, found in run.scrapes.series(filled_in(query)).items():
            assert found or "isthmus_mirror_state" in selector, (title, selector)
        run.scrapes.ask(filled_in(query))
    assert (run.value("isthmus_worker_memory_peak_bytes") or 0) > 1 << 20
    assert text_string_to_metric_families(run.get("/metrics", OPEN_METRICS)[1])


def test_a_group_of_a_hostile_name_is_told_by_it(run: Asked, east: LocalCluster) -> None:
    """It comes back as it is, in step, and how far it is short while its records are not there."""
    group = f"{run.shell.stem}{HOSTILE}"

    def told(metric: str) -> float | None:
        return next((value for key, value in run.ask(metric).items() if dict(key)["group"] == group), None)

    run.until(lambda: told("isthmus_group_offset_undershoot_records") == 0)
    run.until(lambda: run.value('isthmus_groups{standing="IN_STEP"}') == 1)
    assert told("isthmus_group_offset_sync_age_seconds") == 0


def test_a_topic_of_somebody_else_raises_alerts(run: Asked) -> None:
    """It is counted by its state, and copying is a task in error; the other topic goes on."""
    task = ALERTS["IsthmusTaskInError"]["expr"]
    run.until(lambda: [dict(key)["task"] for key in run.ask(task)] == ["data"])
    alert = ALERTS["IsthmusTopicInError"]["expr"]
    run.until(lambda: bool(run.ask(alert)))
    (found,) = run.ask(alert)
    assert (dict(found)["topic"], dict(found)["state"]) == (f"{run.shell.stem}.foreign", "FOREIGN_WRITE")
    run.until(lambda: (run.value('isthmus_problems{code="FOREIGN_WRITE"}') or 0) >= 1)


def test_a_paused_link_raises_alerts_until_it_is_resumed(run: Asked, east: LocalCluster) -> None:
    """Of the pause, of lag that grows old, and of records that nobody copies; all end when it goes on."""
    stem = run.shell.stem
    run.until(lambda: (run.value(f'isthmus_replication_lag_records{{topic="{stem}.a"}}') or 0) == 0)
    before = run.value("isthmus_link_records_replicated_total") or 0
    run.shell.run("pause", stem)
    paused, stalled = ALERTS["IsthmusLinkPaused"]["expr"], ALERTS["IsthmusStalled"]["expr"]
    # Five minutes are awaited by tests that have no brokers.
    late = ALERTS["IsthmusLagTooOld"]["expr"].replace("> 300", "> 1")
    assert late != ALERTS["IsthmusLagTooOld"]["expr"]
    topics.produce(east, f"{stem}.a", [now()] * 10)
    run.until(lambda: bool(run.ask(paused)) and bool(run.ask(late)))
    assert {dict(key)["topic"] for key in run.ask(late)} == {f"{stem}.a"}
    assert run.value(f'isthmus_replication_lag_records{{topic="{stem}.a"}}') == 10
    since = run.afresh()
    since.until(lambda: len(since.scrapes.taken) > 2)
    assert since.ask(stalled)
    assert run.get("/readyz")[0] == 200
    run.shell.run("resume", stem)
    run.until(lambda: run.value("isthmus_link_records_replicated_total") == before + 10 and not run.ask(paused))
    run.until(lambda: not run.ask(late))


def test_quotas_that_hold_the_link_up_are_told(run: Asked, east: LocalCluster, west: LocalCluster) -> None:
    """For how long, by side; without a quota it was not at all."""
    throttled = {side: f'isthmus_throttle_seconds_total{{side="{side}"}}' for side in ("source", "target")}
    run.until(lambda: True)
    assert run.value(throttled["target"]) == 0
    before = run.value("isthmus_link_records_replicated_total") or 0
    sent: list[Given] = []

    def is_held_up() -> bool:
        """A broker hears of a quota when it does: until then records pass."""
        sent.append(Given(b"k", secrets.token_bytes(20_000), [], int(time.time() * 1000)))
        topics.produce(east, f"{run.shell.stem}.a", sent[-1:])
        return (run.value(throttled["target"]) or 0) > 0

    with quota(west, f"isthmus-{run.shell.stem}", 2_000.0):
        run.until(is_held_up)
    assert run.value(throttled["source"]) == 0
    run.until(lambda: run.value("isthmus_link_records_replicated_total") == before + len(sent))


@contextlib.contextmanager
def quota(cluster: LocalCluster, client_id: str, bytes_per_s: float) -> Iterator[None]:
    """For as long as the block runs, so much is all that a link may write, by its client id."""
    _limit(cluster, client_id, bytes_per_s, remove=False)
    try:
        yield
    finally:
        _limit(cluster, client_id, bytes_per_s, remove=True)


def _limit(cluster: LocalCluster, client_id: str, bytes_per_s: float, *, remove: bool) -> None:
    entry = AlterClientQuotasRequest.EntryData
    ours = entry(
        entity=[entry.EntityData(entity_type="client-id", entity_name=client_id)],
        ops=[entry.OpData(key="producer_byte_rate", value=bytes_per_s, remove=remove)],
    )
    port = int(cluster.admin_bootstrap_servers.rpartition(":")[2])
    answer = ask(port, AlterClientQuotasRequest(entries=[ours], validate_only=False), cluster="west")
    assert [each.error_code for each in answer.entries] == [0]


def test_counters_never_go_back_over_leases(run: Asked) -> None:
    """Whatever was scraped by any test so far, while one lease followed another."""
    ended = 'sum by (link) (isthmus_leases_ended_total{ending!="LOST"})'
    begun = run.value(ended) if run.scrapes.taken else 0
    run.until(lambda: (run.value(ended) or 0) >= (begun or 0) + 2)
    known: Vector = {}
    for _, found in run.scrapes.taken:
        for key, value in found.items():
            if str(dict(key)["__name__"]).endswith(("_total", "_count", "_bucket")):
                assert value >= known.get(key, 0.0), key
                known[key] = value
    assert len(known) > 20


def held_back(run: Asked, east: LocalCluster, name: str) -> Callable[[], bool]:
    """Whether records of a topic that is paused are no longer copied: tasks hear of a pause when they do."""

    def is_held_back() -> bool:
        topics.produce(east, name, [now()])
        return (run.value(f'isthmus_replication_lag_records{{topic="{name}"}}') or 0) >= 5

    return is_held_back


def test_records_that_come_late_raise_an_alert(run: Asked, east: LocalCluster) -> None:
    """They are as old as their timestamps."""
    since = run.afresh()
    since.until(lambda: len(since.scrapes.taken) > 1)
    assert not since.ask(ALERTS["IsthmusSlow"]["expr"])
    topics.produce(east, f"{run.shell.stem}.a", [Given(b"k", b"v", [], topics.SEPTEMBER)] * 10, partition=1)
    since.until(lambda: bool(since.ask(ALERTS["IsthmusSlow"]["expr"])))


def test_a_group_that_waits_for_records_raises_an_alert(run: Asked, east: LocalCluster) -> None:
    """As long as copying is paused, and no longer."""
    stem, group = run.shell.stem, f"{run.shell.stem}{HOSTILE}"
    # Ten minutes are awaited by tests that have no brokers.
    behind = ALERTS["IsthmusGroupBehind"]["expr"].replace("> 600", "> 1")
    assert behind != ALERTS["IsthmusGroupBehind"]["expr"]
    run.until(lambda: run.value('isthmus_groups{standing="IN_STEP"}') == 1)
    run.shell.run("pause", stem, "--task", "data")
    run.until(held_back(run, east, f"{stem}.a"))
    end = oracle.ends(east.bootstrap_servers, f"{stem}.a", 0).high
    consumers.commit(east, {group: {(f"{stem}.a", 0): end}})
    run.until(lambda: [dict(key)["group"] for key in run.ask(behind)] == [group])
    run.shell.run("resume", stem, "--task", "data")
    run.until(lambda: not run.ask(behind))


def test_what_a_source_loses_raises_alerts(run: Asked, east: LocalCluster) -> None:
    """Records that it deleted before they were copied, where a link goes on behind them, and a whole topic."""
    stem = run.shell.stem
    lost, gone = f"{stem}.lost", f"{stem}.gone"
    for name in (lost, gone):
        topics.create(east, name)
        topics.produce(east, name, [now()])
    run.until(lambda: all(run.value(f'isthmus_partition_position{{topic="{name}"}}') == 1 for name in (lost, gone)))
    topics.delete(east, gone)
    run.shell.run("pause", stem, "--topic", lost)
    run.until(held_back(run, east, lost))
    topics.delete_records(east, lost, oracle.ends(east.bootstrap_servers, lost).high - 1)
    run.shell.run("resume", stem, "--topic", lost)
    gap, held_up = (ALERTS[f"Isthmus{alert}"]["expr"] for alert in ("DataGap", "TopicHeldUp"))
    run.until(lambda: bool(run.ask(gap)) and bool(run.ask(held_up)))
    assert [dict(key)["topic"] for key in run.ask(gap)] == [lost]
    assert [dict(key)["topic"] for key in run.ask(held_up)] == [gone]


def test_a_run_that_follows_its_file_copies_what_that_includes_meanwhile(
    run: Asked, east: LocalCluster, west: LocalCluster
) -> None:
    """With `--follow-config` the file is read again by itself: a topic that it includes from then on is copied."""
    other = f"later-{run.shell.stem}"
    topics.create(east, other)
    topics.produce(east, other, [now()] * 10)
    (link,) = run.shell.links
    run.shell.configure(links=[{**link, "topics": {"include": [*link["topics"]["include"], other]}}], spark=SPARK)
    run.until(lambda: run.value(f'isthmus_records_replicated_total{{topic="{other}"}}') is not None)
    run.until(lambda: oracle.ends(west.bootstrap_servers, other).high == 10)


def test_a_cluster_that_is_away_makes_the_run_not_ready(run: Asked, east: LocalCluster, west: LocalCluster) -> None:
    """A link that comes by the file into a cluster that is not there: alive, not ready, and an alert names it."""
    shell = run.shell
    (link,) = shell.links
    gone = {**link, "name": f"{shell.stem}-gone", "target": "nowhere", "groups": {}}
    shell.configure(
        links=[link, gone],
        spark=SPARK,
        clusters={
            "east": {"bootstrap_servers": east.bootstrap_servers},
            "west": {"bootstrap_servers": west.bootstrap_servers},
            "nowhere": {"bootstrap_servers": "127.0.0.1:1"},
        },
    )
    run.command.send_signal(signal.SIGHUP)
    alert = ALERTS["IsthmusLinkUnavailable"]["expr"]
    run.until(lambda: bool(run.ask(alert)))
    (found,) = run.ask(alert)
    assert dict(found)["link"] == gone["name"]
    assert [dict(key)["link"] for key in run.ask(ALERTS["IsthmusLinkNotRun"]["expr"])] == [gone["name"]]
    status, body = run.get("/readyz")
    (reason,) = json.loads(body)["reasons"]
    assert (status, reason.startswith(f"link {gone['name']} is UNAVAILABLE: ")) == (503, True)
    assert run.get("/livez")[0] == 200
    assert run.get("/health")[0] == 503


def test_a_port_in_use_is_an_error_before_anything_starts(tmp_path_factory: pytest.TempPathFactory) -> None:
    """No cluster is asked and no Spark is started: the address is told, with what to do."""
    folder = tmp_path_factory.mktemp("taken")
    path = folder / "isthmus.yaml"
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        path.write_text(
            "clusters: {a: {bootstrap_servers: 127.0.0.1:1}, b: {bootstrap_servers: 127.0.0.1:2}}\n"
            f"links: [{{name: l, source: a, target: b}}]\nmetrics: {{listen: '{listen}'}}\n"
        )
        told = refused(path.as_posix(), code=21)
    assert f"ISTH-PORT: cannot serve metrics at {listen}" in told
    assert "ISTH-CONFIG" in refused(path.as_posix(), "--metrics", "0.0.0.0:9464", code=2)


def refused(path: str, *arguments: str, code: int) -> str:
    """What a run says on stderr that ends with this code, and copies nothing."""
    done = command.run("run", "-c", path, *arguments)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    return " ".join(done.stderr.split())
