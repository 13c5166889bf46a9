"""Changes of trees over HTTP: what is refused before any cluster is changed."""

from __future__ import annotations

from pathlib import Path

from fastapi.testclient import TestClient

from isthmus import config
from isthmus.web.access.guard import RateLimit
from isthmus.web.access.tokens import Role, TokenFile
from isthmus.web.app import create_app
from isthmus.web.desk import FabricDesk
from tests.unit.web.callers import DescribedClient

# Nobody listens at these ports.
CONFIGURATION = """
clusters:
  east: {bootstrap_servers: "127.0.0.1:1"}
  west: {bootstrap_servers: "127.0.0.1:2"}
  north: {bootstrap_servers: "127.0.0.1:3"}
trees: [{name: t, clusters: [east, west], topics: [orders]}]
"""


def clients(folder: Path) -> dict[Role, TestClient]:
    """Who asks, by role."""
    tokens = TokenFile(folder / "tokens.json")
    app = create_app(FabricDesk(config.parse(CONFIGURATION)), tokens, RateLimit(1000.0, 1000))
    return {
        role: DescribedClient(
            app,
            base_url="http://127.0.0.1:8087",
            headers={"Authorization": f"Bearer {tokens.create(role.value, role)}"},
        )
        for role in (Role.OPERATOR, Role.ADMIN)
    }


CASES: tuple[tuple[Role, str, dict[str, object], int], ...] = (
    (Role.OPERATOR, "t/clusters/north", {"above": True}, 403),
    (Role.OPERATOR, "t/targets/east/1", {"to": "west", "resend": True}, 422),
    (Role.OPERATOR, "t/targets/east/1", {"to": "west", "force": "soon"}, 422),
    (Role.OPERATOR, "t/targets/east/1", {"to": "west", "force": True, "resend": True}, 403),
    (Role.OPERATOR, "t/targets/east/1", {"to": "west", "force": True}, 503),
    (Role.ADMIN, "t/targets/east/1", {"to": "west", "force": True, "resend": True}, 503),
    (Role.ADMIN, "other/clusters/north", {"above": True}, 404),
    (Role.ADMIN, "t/clusters/north", {}, 422),
    (Role.ADMIN, "t/clusters/north", {"above": True, "beside": "west"}, 422),
    (Role.ADMIN, "t/clusters/north", {"among": "east", "beside": "west"}, 422),
    (Role.ADMIN, "t/clusters/north", {"among": "east", "level": 2}, 400),
    (Role.ADMIN, "t/clusters/north", {"beside": "west", "level": 0}, 422),
    (Role.ADMIN, "t/clusters/nowhere", {"beside": "west"}, 400),
    (Role.ADMIN, "t/clusters/west", {"beside": "east"}, 400),
    (Role.ADMIN, "t/clusters/north", {"beside": "west"}, 409),
    (Role.ADMIN, "t/clusters/north", {"above": True}, 503),
)


def test_what_cannot_be_done_is_refused(tmp_path: Path) -> None:
    """By who asks, by what is asked for, where no level is left for it, and while the tree does not answer."""
    asking = clients(tmp_path)
    for role, path, body, status in CASES:
        answer = asking[role].put(f"/v1/trees/{path}", json=body)

        assert answer.status_code == status, answer.text
        assert answer.json()["hint"]
    assert asking[Role.ADMIN].post("/v1/trees/t/clusters/north:move", json={}).status_code == 422


DECLARING: tuple[tuple[Role, str, str, dict[str, object], int], ...] = (
    (Role.OPERATOR, "POST", "", {"name": "u", "clusters": ["east", "west"]}, 403),
    (Role.ADMIN, "POST", "", {"name": "u", "clusters": "east"}, 422),
    (Role.ADMIN, "POST", "", {"name": "u", "clusters": ["east", "west"], "topics": ["x"]}, 422),
    (Role.ADMIN, "POST", "", {"name": "u", "clusters": ["east", "east"]}, 400),
    (Role.ADMIN, "POST", "", {"name": "u", "clusters": ["east", "nowhere"]}, 400),
    (Role.ADMIN, "POST", "", {"name": "u", "clusters": ["east", "west"], "settings": {"clusters": "x"}}, 400),
    (Role.ADMIN, "POST", "", {"name": "t", "clusters": ["east", "west"]}, 409),
    (Role.ADMIN, "POST", "", {"name": "u", "clusters": ["east", "west"]}, 503),
    (Role.ADMIN, "PATCH", "/u", {"settings": {}}, 422),
    (Role.ADMIN, "PATCH", "/u", {"settings": {"groups": ["x"]}}, 503),
    (Role.OPERATOR, "DELETE", "/u", {}, 403),
    (Role.ADMIN, "DELETE", "/u", {}, 503),
    (Role.ADMIN, "GET", "/u", {}, 404),
    (Role.ADMIN, "GET", "/t", {}, 200),
)


def test_a_tree_without_end_is_refused(tmp_path: Path) -> None:
    """However deep it is, and whether JSON can be that deep or not."""
    asking = clients(tmp_path)[Role.ADMIN]

    for depth in (51, 300, 900, 100_000):
        body = f'{{"name": "u", "clusters": {"[" * depth}"east"{"]" * depth}}}'
        answer = asking.post("/v1/trees", content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code in (400, 422), (depth, answer.text)


def test_what_cannot_be_declared_is_refused(tmp_path: Path) -> None:
    """By who asks, by what is declared, where the file has it, and while the clusters do not answer."""
    asking = clients(tmp_path)
    for role, method, path, body, status in DECLARING:
        answer = asking[role].request(method, f"/v1/trees{path}", json=body or None)

        assert answer.status_code == status, (method, path, body, answer.text)


def test_who_may_remove_a_cluster_that_is_gone(tmp_path: Path) -> None:
    """An admin, and of a tree of more than two; others that are gone are given with force alone."""
    asking = clients(tmp_path)
    place = "/v1/trees/t/clusters/west"

    assert asking[Role.OPERATOR].delete(f"{place}?force=true").status_code == 403
    assert asking[Role.ADMIN].delete(f"{place}?gone=east").status_code == 400
    answer = asking[Role.ADMIN].delete(f"{place}?force=true")
    assert (answer.status_code, "without west only east would be left" in answer.text) == (409, True)
