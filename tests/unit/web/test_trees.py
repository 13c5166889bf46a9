"""Changes of trees over HTTP: what is refused before any cluster is changed."""

from __future__ import annotations

from pathlib import Path

from fastapi.testclient import TestClient

from isthmus import config
from isthmus.web.app import create_app
from isthmus.web.desk import FabricDesk
from isthmus.web.guard import RateLimit
from isthmus.web.tokens import Role, TokenFile

# Nobody listens at these ports.
CONFIGURATION = """
clusters:
  east: {bootstrap_servers: "127.0.0.1:1"}
  west: {bootstrap_servers: "127.0.0.1:2"}
  north: {bootstrap_servers: "127.0.0.1:3"}
trees: [{name: t, clusters: [east, west], topics: [orders]}]
"""


CASES: tuple[tuple[Role, str, dict[str, object], int], ...] = (
    (Role.OPERATOR, "t/clusters/north", {"above": True}, 403),
    (Role.OPERATOR, "t/targets/east/1", {"to": "west", "resend": True}, 422),
    (Role.OPERATOR, "t/targets/east/1", {"to": "west", "force": "soon"}, 422),
    (Role.ADMIN, "other/clusters/north", {"above": True}, 404),
    (Role.ADMIN, "t/clusters/north", {}, 422),
    (Role.ADMIN, "t/clusters/north", {"above": True, "beside": "west"}, 422),
    (Role.ADMIN, "t/clusters/north", {"beside": "west", "level": 0}, 422),
    (Role.ADMIN, "t/clusters/nowhere", {"beside": "west"}, 400),
    (Role.ADMIN, "t/clusters/west", {"beside": "east"}, 400),
    (Role.ADMIN, "t/clusters/north", {"beside": "west"}, 409),
    (Role.ADMIN, "t/clusters/north", {"above": True}, 503),
)


def test_what_cannot_be_done_is_refused(tmp_path: Path) -> None:
    """By who asks, by what is asked for, where no level is left for it, and while the tree does not answer."""
    tokens = TokenFile(tmp_path / "tokens.json")
    secrets = {role: tokens.create(role.value, role) for role in (Role.OPERATOR, Role.ADMIN)}
    app = create_app(FabricDesk(config.parse(CONFIGURATION)), tokens, RateLimit(1000.0, 1000))
    asking = TestClient(app, base_url="http://127.0.0.1:8087")
    for role, path, body, status in CASES:
        answer = asking.put(f"/v1/trees/{path}", json=body, headers={"Authorization": f"Bearer {secrets[role]}"})

        assert answer.status_code == status, answer.text
        assert answer.json()["hint"]
    moving = asking.post(
        "/v1/trees/t/clusters/north:move", json={}, headers={"Authorization": f"Bearer {secrets[Role.ADMIN]}"}
    )
    assert moving.status_code == 422
