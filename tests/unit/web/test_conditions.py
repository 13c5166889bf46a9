"""If-Match on everything that changes something: what was changed since it was read is not changed again unseen."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from isthmus import config
from isthmus.fabric.operations import AsyncLinkOperations
from isthmus.links import pausing
from isthmus.model.links.pauses import Pauses
from isthmus.model.naming import TargetTopic
from isthmus.web.access.guard import RateLimit
from isthmus.web.access.tokens import TokenFile
from isthmus.web.app import create_app
from isthmus.web.desk import FabricDesk
from tests.unit.web.callers import DescribedClient

ROOT = Path(__file__).parents[3]
# Nobody listens at these ports.
CONFIGURATION = """
clusters:
  east: {bootstrap_servers: "127.0.0.1:1"}
  west: {bootstrap_servers: "127.0.0.1:2"}
  north: {bootstrap_servers: "127.0.0.1:3"}
links: [{name: east-west, source: east, target: west, topics: {include: ["orders"]}}]
trees: [{name: t, clusters: [east, west], topics: [flights]}]
"""
STALE = {"If-Match": '"stale"'}
LINK, TREE, WEST = "/v1/links/east-west", "/v1/trees/t", "/v1/clusters/west"


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> TestClient:
    """A client of a server that needs no token."""
    desk = FabricDesk(config.parse(CONFIGURATION))
    app = create_app(desk, TokenFile(tmp_path_factory.mktemp("web") / "tokens.json"), RateLimit(1e6, 1000))
    return DescribedClient(app, base_url="http://127.0.0.1:8087")


@pytest.mark.parametrize("name", ["if-match", "idempotency-key"])
def test_every_change_takes_if_match_and_a_key(name: str) -> None:
    """Each is described with them, whether something has an ETag there or not."""
    described = json.loads((ROOT / "docs" / "openapi.json").read_text())["paths"]
    without = [
        f"{method} {path}"
        for path, methods in described.items()
        for method, operation in methods.items()
        if method != "get" and name not in [each["name"] for each in operation.get("parameters", ())]
    ]
    assert without == []


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", f"{LINK}:forget", None),
        ("POST", f"{LINK}:recover", None),
        ("POST", f"{LINK}:verify", None),
        ("POST", f"{LINK}:wait", {"conditions": ["caught-up"]}),
        ("POST", f"{LINK}/groups:sync", None),
        ("POST", f"{LINK}/groups:drill", {"group": "billing"}),
        ("POST", f"{LINK}/quarantine:replay", {"topic": "orders"}),
        ("PUT", f"{TREE}/clusters/north", {"beside": "west"}),
        ("DELETE", f"{TREE}/clusters/west", None),
        ("POST", f"{TREE}/clusters/west:move", {"beside": "east"}),
        ("POST", f"{TREE}:verify", None),
        ("POST", "/v1/links", {"link": "other", "source": "east", "target": "west"}),
        ("POST", "/v1/trees", {"name": "u", "clusters": ["east", "north"]}),
        ("POST", f"{WEST}/namespaces", {"namespace": "local-*"}),
        ("POST", f"{WEST}/leaders:elect", None),
        ("POST", f"{WEST}/reassignments:cancel", None),
        ("POST", f"{WEST}/links/gone:forget", None),
        ("POST", f"{WEST}/gateways/0123abcd:forget", None),
        ("POST", "/v1/schemas:sync", None),
        ("POST", "/v1/schemas:primary", {"cluster": "west"}),
        ("POST", "/v1/operations/none:cancel", None),
    ],
)
def test_what_was_changed_since_it_was_read_is_left_alone(
    asking: TestClient, method: str, path: str, body: dict[str, Any] | None
) -> None:
    """Before any cluster is changed; with * any state is accepted, and what else is in the way is told."""
    begun = len(asking.get("/v1/operations").json())
    stale = asking.request(method, path, headers=STALE, json=body)
    assert (stale.status_code, stale.json()["code"]) == (412, "ISTH-REQUEST"), stale.text
    assert stale.json()["hint"]
    assert len(asking.get("/v1/operations").json()) == begun


@pytest.mark.parametrize("path", [LINK, f"{TREE}/clusters"])
def test_the_etag_of_what_was_read_is_accepted(asking: TestClient, path: str) -> None:
    """Of a link for what is done with it, of a tree's clusters for what becomes of them: as *, and as none."""
    etag = asking.get(path).headers["ETag"]
    method, changed = ("POST", f"{LINK}:wait") if path == LINK else ("PUT", f"{TREE}/clusters/nowhere")
    body = {"conditions": ["state=UNAVAILABLE"]} if path == LINK else {"beside": "west"}

    answers = [asking.request(method, changed, json=body, headers={"If-Match": each}) for each in (etag, "*")]
    assert [each.status_code for each in answers] == [202 if path == LINK else 400] * 2
    assert asking.request(method, changed, json=body).status_code == answers[0].status_code


def test_pauses_are_changed_as_they_were_read(asking: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever sends their ETag pauses and resumes only while nobody else has; whoever sends none does so anyhow."""
    paused: set[TargetTopic] = set()

    async def pauses(_: AsyncLinkOperations) -> Pauses:
        return Pauses.of(paused)

    async def pause(_: AsyncLinkOperations, topic: str | None = None, **__: Any) -> bool:
        paused.add(TargetTopic(topic or ""))
        return False

    async def resume(_: AsyncLinkOperations, topic: str | None = None, **__: Any) -> pausing.Resumed:
        paused.discard(TargetTopic(topic or ""))
        return pausing.Resumed(was_paused=True, still_paused=Pauses.of(paused))

    for verb in (pauses, pause, resume):
        monkeypatch.setattr(AsyncLinkOperations, verb.__name__, verb)
    before = asking.get(f"{LINK}/pause")
    known = {"If-Match": before.headers["ETag"]}
    assert before.json()["paused_topics"] == []
    assert asking.put(f"{LINK}/pause?topic=orders", headers=known).status_code == 200
    assert asking.put(f"{LINK}/resume?topic=orders", headers=known).status_code == 412
    assert asking.put(f"{LINK}/pause?topic=flights", headers=known).status_code == 412
    now = asking.get(f"{LINK}/pause")
    assert now.json()["paused_topics"] == ["orders"]
    assert asking.put(f"{LINK}/resume?topic=orders", headers={"If-Match": now.headers["ETag"]}).status_code == 200
    assert asking.put(f"{LINK}/pause?topic=orders").status_code == 200


def test_a_distributor_is_switched_as_it_was_read(asking: TestClient) -> None:
    """The ETag is that of all targets of the tree."""
    etag = asking.get(f"{TREE}/targets").headers["ETag"]
    body, path = {"to": "west"}, f"{TREE}/targets/east/1"

    assert asking.put(path, json=body, headers=STALE).status_code == 412
    assert asking.put(path, json=body, headers={"If-Match": etag}).status_code != 412
