"""Who gets past the guard of the REST API, and how the others are answered."""

from __future__ import annotations

from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from isthmus import config
from isthmus.errors import ConfigError, RequestRefused
from isthmus.web.access.guard import BODY_BYTES_MAX, RateLimit, UnderWay
from isthmus.web.access.tokens import Role, TokenFile
from isthmus.web.app import create_app
from isthmus.web.desk import FabricDesk
from tests.unit.web.callers import DescribedClient

# A tree needs no cluster to be told; nobody listens at these ports.
CONFIGURATION = """
clusters:
  east: {bootstrap_servers: "127.0.0.1:1"}
  west: {bootstrap_servers: "127.0.0.1:2", security: {protocol: SASL_PLAINTEXT, mechanism: PLAIN, username: u,
    password: canary-secret}}
links:
  - {name: east-west, source: east, target: west, topics: {include: ["orders"]}}
"""


@pytest.fixture
def tokens(tmp_path: Path) -> TokenFile:
    """A file of tokens that is not there yet."""
    return TokenFile(tmp_path / "tokens.json")


def app(tokens: TokenFile, *, per_s: float = 1000.0, burst: int = 1000) -> FastAPI:
    """The API over clusters that do not answer."""
    return create_app(FabricDesk(config.parse(CONFIGURATION)), tokens, RateLimit(per_s, burst))


def client(tokens: TokenFile, *, per_s: float = 1000.0, burst: int = 1000) -> TestClient:
    """A client of the API."""
    return DescribedClient(app(tokens, per_s=per_s, burst=burst), base_url="http://127.0.0.1:8087")


def bearer(secret: str) -> dict[str, str]:
    """The header with a token."""
    return {"Authorization": f"Bearer {secret}"}


def test_without_tokens_this_host_may_ask(tokens: TokenFile) -> None:
    """Until the first token is created nobody needs one."""
    assert client(tokens).get("/v1/clusters").status_code == 200


def test_a_token_is_needed_once_there_is_one(tokens: TokenFile) -> None:
    """A missing, a wrong and a revoked token are refused with a problem, a good one passes."""
    secret = tokens.create("alice", Role.VIEWER)
    asking = client(tokens)

    missing, wrong = asking.get("/v1/clusters"), asking.get("/v1/clusters", headers=bearer("isthmus_no"))
    assert (missing.status_code, wrong.status_code) == (401, 401)
    assert missing.json()["code"] == "ISTH-TOKEN"
    assert missing.headers["content-type"] == "application/problem+json"
    assert asking.get("/v1/clusters", headers=bearer(secret)).status_code == 200
    tokens.revoke("alice")
    assert asking.get("/v1/clusters", headers=bearer(secret)).status_code == 401


def test_a_dry_run_gives_nobody_a_token_and_takes_none(tokens: TokenFile) -> None:
    """What would be refused is refused all the same."""
    assert tokens.find(tokens.create("alice", Role.ADMIN, dry_run=True)) is None
    secret = tokens.create("alice", Role.ADMIN)
    tokens.revoke("alice", dry_run=True)
    assert tokens.find(secret) is not None
    with pytest.raises(ConfigError, match="there is a token named alice"):
        tokens.create("alice", Role.VIEWER, dry_run=True)


def test_a_lost_file_lets_nobody_in(tokens: TokenFile) -> None:
    """A server that needed tokens needs them when their file is gone."""
    tokens.create("alice", Role.ADMIN)
    asking = client(tokens)
    assert asking.get("/v1/clusters").status_code == 401
    tokens.path.unlink()

    assert asking.get("/v1/clusters").status_code == 401


def test_the_file_keeps_hashes_for_its_owner_only(tokens: TokenFile) -> None:
    """What a caller sends is not in it."""
    secret = tokens.create("alice", Role.ADMIN)

    assert secret not in tokens.path.read_text()
    assert tokens.path.stat().st_mode & 0o077 == 0


def test_every_route_asks_who_may(tokens: TokenFile) -> None:
    """Nothing is told without a token but health, and a viewer changes nothing: all that is described is tried."""
    headers = bearer(tokens.create("alice", Role.VIEWER))
    asking = client(tokens)
    described = asking.get("/v1/openapi.json", headers=headers).json()["paths"]
    refused: dict[str, tuple[int, int | None]] = {}
    for path, verbs in described.items():
        for verb in verbs:
            changes = verb != "get"
            viewed = asking.request(verb, path, headers=headers).status_code if changes else None
            refused[f"{verb} {path}"] = asking.request(verb, path).status_code, viewed

    public = {f"get {path}" for path in ("/livez", "/readyz", "/health")}
    assert {name for name, (stranger, _) in refused.items() if stranger != 401} == public
    assert {viewed for _, viewed in refused.values()} == {403, None}
    assert "operator" in asking.put("/v1/links/east-west/pause", headers=headers).json()["hint"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Host": "127.0.0.1.evil.example:8087"}, 421),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Host": "localhost:8087"}, 200),
        ({"Origin": "http://127.0.0.1:8087"}, 200),
        ({"Origin": "http://[x"}, 403),
    ],
)
def test_pages_of_other_sites_are_refused(tokens: TokenFile, headers: dict[str, str], status: int) -> None:
    """By the name they called, and by where they come from."""
    assert client(tokens).get("/v1/clusters", headers=headers).status_code == status


def test_a_large_body_is_refused(tokens: TokenFile) -> None:
    """Whether its length is told or not."""
    asking, chunk = client(tokens), b"x" * (BODY_BYTES_MAX + 1)

    assert asking.put("/v1/links/east-west/filters", content=chunk).status_code == 413
    assert asking.put("/v1/links/east-west/filters", content=iter([chunk])).status_code == 413


def test_too_many_requests_are_refused(tokens: TokenFile) -> None:
    """With the time to wait."""
    asking = client(tokens, per_s=0.1, burst=2)

    answers = [asking.get("/v1/clusters") for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert int(answers[2].headers["retry-after"]) >= 1


def test_who_floods_without_a_token_keeps_nobody_else_out(tokens: TokenFile) -> None:
    """Strangers are counted by their address, of IPv6 by the network: others can still log in."""
    tokens.create("alice", Role.VIEWER)
    asked = app(tokens, per_s=0.1, burst=2)

    def status(address: str) -> int:
        asking = DescribedClient(asked, base_url="http://127.0.0.1:8087", client=(address, 5000))
        return asking.get("/login").status_code

    assert [status("10.0.0.1") for _ in range(3)] == [200, 200, 429]
    assert [status(f"2001:db8::{number}") for number in (1, 2, 3)] == [200, 200, 429]
    assert [status(address) for address in ("10.0.0.2", "2001:db8:0:1::1")] == [200, 200]
    # As a server that listens for both is told who has IPv4.
    assert [status(address) for address in ("::ffff:10.0.0.1", "::ffff:10.0.0.3")] == [429, 200]


def test_what_is_not_there_is_a_problem(tokens: TokenFile) -> None:
    """A cluster, a path and a method that there are not."""
    asking = client(tokens)

    unknown = asking.get("/v1/clusters/north")
    assert unknown.status_code == 404
    assert unknown.json()["code"] == "ISTH-REQUEST"
    assert asking.get("/v1/nothing").json()["status"] == 404
    assert asking.delete("/v1/links").json()["status"] == 405


def test_a_cluster_is_told_as_others_remember_it(tokens: TokenFile) -> None:
    """Without asking it; where nobody who answers remembers anything that is a problem, and says who was asked."""
    answer = client(tokens).get("/v1/clusters/east/last-known")

    assert (answer.status_code, answer.json()["code"]) == (502, "ISTH-CLUSTER")
    assert "nothing is remembered of a cluster east" in answer.json()["detail"]


def test_a_broken_body_is_a_problem_without_what_was_sent(tokens: TokenFile) -> None:
    """Only the field is named."""
    answer = client(tokens).put("/v1/links/east-west/filters", json={"topics_include": {"canary": 1}})

    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == "body.topics_include"
    assert "canary" not in answer.text


def test_secrets_are_not_told(tokens: TokenFile) -> None:
    """Neither of clusters nor of links."""
    asking = client(tokens)

    assert "canary-secret" not in asking.get("/v1/clusters").text
    assert "canary-secret" not in asking.get("/v1/openapi.json").text


def test_a_tree_that_is_not_there_has_no_plan(tokens: TokenFile) -> None:
    """It is missed before a cluster is asked for one."""
    answer = client(tokens).get("/v1/trees/nothing/plan")
    assert (answer.status_code, answer.json()["detail"]) == (404, "there is no tree nothing")


def test_a_name_that_is_given_again_is_another_caller(tokens: TokenFile) -> None:
    """Who has it now does not get the answers that the one before got to the same request and key."""
    asking = client(tokens)

    def status(secret: str) -> int:
        headers = {**bearer(secret), "Idempotency-Key": "k"}
        wanted = {"conditions": ["caught-up"], "timeout_s": 0}
        return asking.post("/v1/links/east-west:wait", headers=headers, json=wanted).status_code

    first = tokens.create("alice", Role.OPERATOR)
    assert [status(first), status(first)] == [202, 202]
    tokens.revoke("alice")
    assert status(tokens.create("alice", Role.VIEWER)) == 403


def test_one_caller_has_so_many_requests_under_way() -> None:
    """One more is refused until one is answered, and nobody else's."""
    under_way = UnderWay(1)
    with under_way.one("a"), under_way.one("b"), pytest.raises(RequestRefused, match="not answered yet") as refused:
        under_way.one("a").__enter__()
    assert (refused.value.status, refused.value.retry_after_s) == (429, 1)
    with under_way.one("a"):
        pass
