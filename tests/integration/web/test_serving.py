"""The REST API over HTTP and real clusters: what it tells, who may ask, and what it changes."""

from __future__ import annotations

import asyncio
import json
import logging
import random
import signal
import socket
import ssl
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest
import trustme
import yaml
from typer.testing import CliRunner

from isthmus import config
from isthmus.cli.app import app
from isthmus.fabric.fabric import Fabric
from isthmus.kafka.client import Client
from isthmus.ledger.topic import locate, on_topic
from isthmus.local import LocalCluster
from isthmus.model.configuration import Configuration
from isthmus.model.text.plain import plain
from isthmus.web.access.tokens import Role, TokenFile
from isthmus.web.serving import ServeSettings, serving_beside
from testing.groups import consumers
from testing.patience import TERM_S
from testing.records import topics
from testing.rest.asking import RECORDS, Served, serving
from testing.runs.command import Shell
from testing.runs.declaring import cut
from testing.values.standing import free_port
from testing.verbs import remember

pytestmark = pytest.mark.integration

Namer = Callable[[str], str]
PRINCIPALS = "?source_principal=User:east&target_principal=User:west"


def test_every_path_that_can_be_read_answers(served: Served) -> None:
    """With the link, the topic and the clusters that there are, one of which is remembered by the other. Registries
    there are none. Records that were set aside are for admins.
    """
    asyncio.run(_written_down(served.configuration))
    filled = {"{link}": served.link, "{topic}": served.topic, "{partition}": "0", "{cluster}": "east"}
    described = served.read("/v1/openapi.json")["paths"]
    paths = [path for path, verbs in described.items() if "get" in verbs]
    for name, value in filled.items():
        paths = [path.replace(name, value) for path in paths]
    # Of no cluster is there a copy here, nor a secret for one.
    none = ("/v1/events", "/groups/copy", "/groups/key")
    paths = [path for path in paths if "{" not in path and not path.endswith(none) and "schemas" not in path]
    paths = [path + (f"?group={served.link}-group" if path.endswith("translate") else "") for path in paths]
    paths = [path + (PRINCIPALS if path.endswith("/acls") else "") for path in paths]
    with ThreadPoolExecutor(8) as threads:
        roles = [Role.ADMIN if "/quarantine/" in path else Role.VIEWER for path in paths]
        asked = threads.map(lambda path, role: served.ask("GET", path, role), paths, roles)
        answered = dict(zip(paths, asked, strict=True))

    assert len(answered) > 20
    assert {path: answer.text for path, answer in answered.items() if answer.status_code != 200} == {}


async def _written_down(configuration: Configuration) -> None:
    """Have the target remember the source, as it is done while a link runs."""
    async with Client(configuration.cluster("west")) as west:
        await on_topic(west, lambda: locate(west))
    await remember(configuration.links, declared=())


def test_what_is_read_is_what_commands_tell(served: Served) -> None:
    """The plan and the status of the link, and the log of a topic at a cluster."""
    fabric = Fabric(served.configuration)

    assert served.read("/v1/plan") == plain(fabric.plan())
    assert served.read("/v1/links/{link}/plan") == plain(fabric.plan(link=served.link))
    (status,) = served.read(f"/v1/status?link={served.link}")
    assert status["link"] == served.link
    (partition, _) = served.read("/v1/links/{link}/topics/" + served.topic)["partitions"]
    assert partition["source_end"] == RECORDS
    (first, _) = served.read("/v1/links/{link}/topics/" + served.topic + "/partitions")
    assert (first["partition"], first["source_end"]) == (0, RECORDS)
    listed = served.read(f"/v1/clusters/east/topics?topic={served.topic}")
    assert served.topic in json.dumps(listed)


def test_a_tree_is_planned_as_by_its_command(
    east: LocalCluster, west: LocalCluster, topic: Namer, tmp_path: Path
) -> None:
    """What its distributors would create and copy each way, and where groups would be, as by the command."""
    name, group = topic("tree"), topic("group")
    topics.create(east, name, partitions=2)
    topics.produce(east, name, topics.some(RECORDS, random.Random(name)))
    consumers.commit(east, {group: {(name, 0): 3}})
    clusters = {each.cluster().alias: {"bootstrap_servers": each.bootstrap_servers} for each in (east, west)}
    tree = {"name": name, "clusters": ["east", "west"], "topics": [name], "groups": [group]}
    file = tmp_path / "isthmus.yaml"
    file.write_text(yaml.safe_dump({"clusters": clusters, "trees": [tree]}))

    told = CliRunner().invoke(app, ["tree", "plan", name, "-c", str(file), "-o", "json"])
    with serving(config.load(file), tmp_path) as server:
        found = server.read(f"/v1/trees/{name}/plan")
        assert server.ask("GET", "/v1/trees/nowhere/plan", Role.VIEWER).status_code == 404

    assert found == json.loads(told.stdout)
    assert [len(link["topics"]) for link in found["links"]] == [1, 1]
    assert group in json.dumps(found["groups"])


def test_a_topic_and_a_link_are_paused_and_resumed(served: Served) -> None:
    """By an operator; the status says so, and a dry run changes nothing."""

    def state() -> str:
        return str(served.read("/v1/links/{link}/topics/" + served.topic)["state"])

    foreseen = served.ask("PUT", f"/v1/links/{{link}}/pause?topic={served.topic}&dry_run=true", Role.OPERATOR)
    assert foreseen.json()["was_paused"] is False
    assert state() != "PAUSED"
    paused = served.ask("PUT", f"/v1/links/{{link}}/pause?topic={served.topic}", Role.OPERATOR)
    assert paused.status_code == 200
    assert state() == "PAUSED"
    for (given,) in (each["pauses"] for each in (served.read("/v1/status")[0], served.read("/v1/links/{link}/pause"))):
        assert (given["topic"], given["by"]) == (served.topic, "a operator over REST")
    assert served.ask("PUT", "/v1/links/{link}/pause", Role.OPERATOR).json()["was_paused"] is False
    resumed = served.ask("PUT", "/v1/links/{link}/resume", Role.OPERATOR).json()
    assert (resumed["was_paused"], resumed["paused_topics"]) == (True, [served.topic])
    resumed = served.ask("PUT", f"/v1/links/{{link}}/resume?topic={served.topic}", Role.OPERATOR).json()
    assert (resumed["was_paused"], resumed["paused_topics"]) == (True, [])
    assert state() != "PAUSED"
    pauses = served.ask("GET", "/v1/links/{link}/pause", Role.VIEWER)
    assert (pauses.json()["link_is_paused"], pauses.json()["paused_topics"]) == (False, [])
    known = {"If-Match": pauses.headers["ETag"]}
    assert served.ask("PUT", "/v1/links/{link}/pause", Role.OPERATOR, headers=known).status_code == 200
    assert served.ask("PUT", "/v1/links/{link}/resume", Role.OPERATOR, headers=known).status_code == 412
    assert served.ask("PUT", "/v1/links/{link}/resume", Role.OPERATOR).json()["was_paused"] is True
    prefix = served.topic[:-1]
    paused = served.ask("PUT", f"/v1/links/{{link}}/pause?namespace={prefix}", Role.OPERATOR)
    assert (paused.json()["paused"], paused.json()["namespace"]) == (True, prefix)
    assert state() == "PAUSED"
    resumed = served.ask("PUT", f"/v1/links/{{link}}/resume?namespace={prefix}", Role.OPERATOR).json()
    assert (resumed["was_paused"], resumed["paused_namespaces"]) == (True, [])
    assert state() != "PAUSED"


def test_of_two_who_change_filters_at_once_one_is_told_to_read_again(served: Served) -> None:
    """Both know the same; the second one gets 412, and the first one's filters hold."""
    read = served.ask("GET", "/v1/links/{link}/filters")
    excluded = [["x-1"], ["x-2"]]

    def change(patterns: list[str]) -> httpx2.Response:
        headers = {"If-Match": read.headers["ETag"]}
        return served.ask(
            "PUT",
            "/v1/links/{link}/filters",
            headers=headers,
            json={"topics_exclude": patterns, "configs_exclude": patterns},
        )

    with ThreadPoolExecutor(2) as threads:
        answers = list(threads.map(change, excluded))

    assert sorted(answer.status_code for answer in answers) == [200, 412]
    (held,) = (given for given, answer in zip(excluded, answers, strict=True) if answer.status_code == 200)
    now = served.ask("GET", "/v1/links/{link}/filters")
    found = now.json()
    assert (found["topics_exclude"], found["configs_exclude"], found["by"]) == (held, held, "a admin over REST")
    assert served.ask("DELETE", "/v1/links/{link}/filters").status_code == 428
    reset = served.ask("DELETE", "/v1/links/{link}/filters", headers={"If-Match": now.headers["ETag"]})
    assert reset.json()["by"] is None
    for name in ("topics_exclude", "configs_exclude"):
        assert reset.json()[name] == read.json()[name]


def test_a_declared_link_is_known_without_a_new_start(served: Served, topic: Namer) -> None:
    """What is declared on the clusters while the server runs is there in the next answer, and gone in the one after."""
    name = topic("declared")
    declarations = Fabric(served.configuration).declarations
    declarations.create(name, source="east", target="west", maps=[])
    try:
        assert name in [each["link"] for each in served.read("/v1/links")]
        assert served.read(f"/v1/links/{name}")["declaration"]["link"] == name
    finally:
        declarations.delete(name)

    assert name not in [each["link"] for each in served.read("/v1/links")]


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/v1/links/nothing/status", 404, "ISTH-REQUEST"),
        ("GET", "/v1/links/{link}/topics/nothing", 404, "ISTH-REQUEST"),
        ("GET", "/v1/clusters/nothing", 404, "ISTH-REQUEST"),
        ("GET", "/v1/clusters/east/topics?topic=nothing", 404, "ISTH-REQUEST"),
        ("PUT", "/v1/links/{link}/pause?topic=nothing", 404, "ISTH-REQUEST"),
        ("PUT", "/v1/links/{link}/resume?topic=nothing", 404, "ISTH-REQUEST"),
        ("GET", "/v1/links/a%00b/status", 404, "ISTH-REQUEST"),
        ("GET", "/v1/status?link=%1b[31m", 404, "ISTH-REQUEST"),
    ],
)
def test_what_is_not_there_is_told_as_a_problem(served: Served, method: str, path: str, status: int, code: str) -> None:
    """As problem+json with a code of ours and what Kafka Connect's clients look for."""
    answer = served.ask(method, path)

    assert answer.headers["content-type"] == "application/problem+json"
    told = answer.json()
    assert (answer.status_code, told["status"], told["error_code"], told["code"]) == (status, status, status, code)


def test_each_change_is_a_line_in_the_log(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    """With who, what, the difference and the result, also of one that is refused."""
    caplog.set_level(logging.INFO, "isthmus.audit")
    etag = served.ask("GET", "/v1/links/{link}/filters").headers["ETag"]
    changed = served.ask(
        "PUT", "/v1/links/{link}/filters", headers={"If-Match": etag}, json={"groups_include": ["none-*"]}
    )
    served.ask("DELETE", "/v1/links/{link}/filters", headers={"If-Match": etag})
    served.ask("DELETE", "/v1/links/{link}/filters", headers={"If-Match": changed.headers["ETag"]})

    lines = [json.loads(record.getMessage()) for record in caplog.records if record.name == "isthmus.audit"]
    stale = "refused: ISTH-REQUEST: it was changed since it was read"
    assert [line["result"] for line in lines] == ["done", stale, "done"]
    assert {(line["who"], line["role"], line["what"], line["target"]) for line in lines} == {
        ("a admin", "admin", "filters", served.link)
    }
    assert lines[0]["difference"]["groups_include"] == [[f"{served.link}-*"], ["none-*"]]


def test_over_tls_with_a_token(served: Served, tmp_path: Path) -> None:
    """Who trusts the certificate is answered; who does not, or speaks plainly, is not."""
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    issued.cert_chain_pems[0].write_to_path(certificate)
    issued.private_key_pem.write_to_path(key)
    tokens = TokenFile(tmp_path / "tokens.json")
    secret = tokens.create("alice", Role.VIEWER)
    address = f"127.0.0.1:{free_port()}"
    settings = ServeSettings(listen=address, tokens=tokens.path, certificate=certificate, key=key)
    trusting, headers = ssl.create_default_context(), {"Authorization": f"Bearer {secret}"}
    authority.configure_trust(trusting)
    with serving_beside(served.configuration, settings):
        found = httpx2.get(f"https://{address}/v1/clusters", headers=headers, verify=trusting, timeout=TERM_S)
        assert [each["cluster"] for each in found.json()] == ["east", "west"]
        assert httpx2.get(f"https://{address}/v1/clusters", verify=trusting, timeout=TERM_S).status_code == 401
        with pytest.raises(httpx2.ConnectError):
            httpx2.get(f"https://{address}/v1/clusters", headers=headers, timeout=TERM_S)
        with pytest.raises(httpx2.RemoteProtocolError):
            httpx2.get(f"http://{address}/v1/clusters", headers=headers, timeout=TERM_S)


def test_bodies_are_bounded_in_size_and_in_time(served: Served, tmp_path: Path) -> None:
    """10 MB are refused without being read; a body that does not come, or a request, is not waited for."""
    assert served.ask("PUT", "/v1/links/{link}/filters", content=b"x" * 10_000_000).status_code == 413
    host, port = "127.0.0.1", free_port()
    settings = ServeSettings(listen=f"{host}:{port}", tokens=tmp_path / "tokens.json", body_s=2.0)
    asked = f"PUT /v1/links/{served.link}/filters HTTP/1.1\r\nHost: {host}\r\nContent-Length: 100\r\n"
    with (
        serving_beside(served.configuration, settings),
        socket.create_connection((host, port), timeout=TERM_S) as slow,
    ):
        slow.sendall(f"{asked}\r\n{{".encode())
        assert slow.recv(4096).startswith(b"HTTP/1.1 408")
        with socket.create_connection((host, port), timeout=TERM_S) as silent:
            assert silent.recv(1) == b""


def test_each_token_has_a_rate_of_its_own(served: Served, tmp_path: Path) -> None:
    """One that asks too often is told when to ask again, and another one is answered meanwhile."""
    tokens = TokenFile(tmp_path / "tokens.json")
    eager, calm = (tokens.create(name, Role.VIEWER) for name in ("eager", "calm"))
    address = f"127.0.0.1:{free_port()}"
    settings = ServeSettings(listen=address, tokens=tokens.path, requests_per_s=0.01)

    def ask(secret: str) -> httpx2.Response:
        headers = {"Authorization": f"Bearer {secret}"}
        return httpx2.get(f"http://{address}/v1/clusters", headers=headers, timeout=TERM_S)

    with serving_beside(served.configuration, settings):
        answers = [ask(eager) for _ in range(4)]
        assert [answer.status_code for answer in answers][-1] == 429
        assert int(answers[-1].headers["Retry-After"]) >= 1
        assert ask(calm).status_code == 200


def test_a_cluster_that_cannot_be_reached_is_a_problem_of_its_own(served: Served, tmp_path: Path) -> None:
    """The link's status says so with 200; what can only be asked of that cluster answers 503 and may be asked again."""
    away = cut(served.configuration, "west")
    away = replace(away, links=tuple(replace(link, target=away.cluster("west")) for link in away.links))
    with serving(away, tmp_path) as cut_off:
        (status,) = cut_off.read("/v1/status")
        assert status["state"] == "UNAVAILABLE"
        answer = cut_off.ask("GET", "/v1/clusters/west/groups")
        assert (answer.status_code, answer.json()["code"]) == (503, "ISTH-UNREACHABLE")
        assert int(answer.headers["Retry-After"]) >= 1
        assert cut_off.ask("PUT", "/v1/links/{link}/pause").status_code == 503
        assert cut_off.read("/livez") == {"status": "ok"}


def test_the_command_serves_until_it_is_ended(
    east: LocalCluster, west: LocalCluster, topic: Namer, tmp_path: Path
) -> None:
    """It says where it listens and who changed what, and ends at SIGTERM in good order."""
    shell, port = Shell(tmp_path, east, west, topic("web")), free_port()
    base = f"http://127.0.0.1:{port}"
    listening = ("--listen", f"127.0.0.1:{port}", "--tokens", str(tmp_path / "tokens.json"))
    with shell.start("serve", *listening) as command:
        try:
            answer = eventually(command, lambda: httpx2.put(f"{base}/v1/links/{shell.stem}/pause", timeout=TERM_S))
        finally:
            command.terminate()
        _, told = command.communicate(timeout=TERM_S)

    assert answer.json()["paused"] is True
    assert command.returncode == 128 + signal.SIGTERM
    told = told.replace("\n", "")
    assert f"serving at {base}/v1" in " ".join(told.split())
    assert '"who": "local"' in " ".join(told.split())


def eventually(command: subprocess.Popen[str], ask: Callable[[], httpx2.Response]) -> httpx2.Response:
    """The first answer of a server that is starting."""
    deadline = time.monotonic() + TERM_S
    while True:
        try:
            return ask()
        except httpx2.ConnectError:
            assert command.poll() is None, command.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.1)
