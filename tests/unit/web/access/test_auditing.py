"""Lines in the log of changes that are refused."""

from __future__ import annotations

import json
import logging
from collections import deque
from collections.abc import Mapping
from typing import Any

import pytest
from fastapi.testclient import TestClient

from isthmus import config
from isthmus.fabric.operations import AsyncLinkOperations
from isthmus.links.pausing import Resumed
from isthmus.local.operator import operator
from isthmus.memory.livesettings import LiveSettings
from isthmus.model.links.pauses import NO_PAUSES
from isthmus.web.access import auditing
from isthmus.web.access.tokens import Role
from tests.unit.web.callers import callers

# Nobody listens at these ports.
CONFIGURATION = """
clusters:
  east: {bootstrap_servers: "127.0.0.1:1"}
  west: {bootstrap_servers: "127.0.0.1:2"}
links: [{name: east-west, source: east, target: west, topics: {include: ["orders"]}}]
trees: [{name: t, clusters: [east, west], topics: [flights]}]
"""


@pytest.fixture(autouse=True)
def audited(caplog: pytest.LogCaptureFixture) -> None:
    """The log has the lines."""
    caplog.set_level(logging.INFO, "isthmus.audit")


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> dict[Role, TestClient]:
    """Who asks, by role."""
    return callers(config.parse(CONFIGURATION), tmp_path_factory.mktemp("web"))


def lines(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    """What was written since it was asked last."""
    found = [json.loads(each.getMessage()) for each in caplog.records if each.name == "isthmus.audit"]
    caplog.clear()
    return found


@pytest.mark.parametrize(
    ("role", "method", "path", "status", "target", "reason"),
    [
        (Role.VIEWER, "PUT", "/v1/links/{link}/pause", 403, "east-west", "needs operator"),
        (Role.OPERATOR, "POST", "/v1/links/{link}:promote", 403, "east-west", "needs admin"),
        (Role.OPERATOR, "POST", "/v1/links", 403, "", "needs admin"),
        (Role.OPERATOR, "POST", "/v1/operations/{operation}:cancel", 404, "none", "there is no operation none"),
        (Role.ADMIN, "POST", "/v1/schemas:sync", 400, "", ""),
        (Role.ADMIN, "PUT", "/v1/trees/{tree}/clusters/{cluster}", 422, "t east", "body: Field required"),
        (Role.ADMIN, "POST", "/v1/clusters/{cluster}/leaders:elect", 404, "nowhere", "no cluster"),
    ],
)
def test_a_change_that_is_refused_leaves_a_line(
    asking: dict[Role, TestClient],
    caplog: pytest.LogCaptureFixture,
    role: Role,
    method: str,
    path: str,
    status: int,
    target: str,
    reason: str,
) -> None:
    """Who asked for what, and why it was refused: for the role, for what is not there, or for the body."""
    cluster = "nowhere" if path.startswith("/v1/clusters") else "east"
    asked = path.format(link="east-west", operation="none", tree="t", cluster=cluster)
    answer = asking[role].request(method, f"{asked}?dry_run=true")

    assert answer.status_code == status, answer.text
    (line,) = lines(caplog)
    assert (line["who"], line["role"]) == (f"a {role}", role)
    assert (line["what"], line["target"]) == (f"{method} {path}", target)
    assert line["difference"] == {"dry_run": "true"}
    assert answer.json()["code"] in line["result"]
    assert reason in line["result"]


def test_a_change_that_was_tried_leaves_one_line(
    asking: dict[Role, TestClient], caplog: pytest.LogCaptureFixture
) -> None:
    """Also where it failed."""
    asking[Role.ADMIN].put("/v1/trees/t/clusters/nowhere", json={"above": True})
    (line,) = lines(caplog)
    assert line["what"] == "add to tree"
    assert line["result"].startswith("failed: ISTH-")


def test_a_line_says_what_it_was_before(
    asking: dict[Role, TestClient], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of pauses, and of settings, each with the value that it has now."""

    async def pause(_: AsyncLinkOperations, **__: Any) -> bool:
        assert operator() == "a operator over REST"
        return False

    async def resume(_: AsyncLinkOperations, **__: Any) -> Resumed:
        return Resumed(was_paused=True, still_paused=NO_PAUSES)

    async def settings(_: AsyncLinkOperations) -> LiveSettings:
        return LiveSettings()

    async def change_settings(_: AsyncLinkOperations, said: Mapping[str, Any], **__: Any) -> LiveSettings:
        return LiveSettings(changed=said)

    for verb in (pause, resume, settings, change_settings):
        monkeypatch.setattr(AsyncLinkOperations, verb.__name__, verb)
    caller, changed = asking[Role.OPERATOR], {"settings": {"limits.bytes_per_s": 5000}}
    caller.put("/v1/links/east-west/pause")
    caller.put("/v1/links/east-west/resume")
    assert caller.put("/v1/links/east-west/settings", json=changed, headers={"If-Match": "*"}).status_code == 200

    assert [each["difference"].get("paused") for each in lines(caplog)[:2]] == [[False, True], [True, False]]
    (line,) = [each for each in auditing.trail() if each.what == "settings"][:1]
    assert line.difference["limits.bytes_per_s"] == [None, 5000]


def test_who_looks_or_is_not_known_leaves_no_line(
    asking: dict[Role, TestClient], caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever is answered."""
    assert asking[Role.VIEWER].get("/v1/clusters/nowhere").status_code == 404
    assert asking[Role.VIEWER].put("/v1/nothing").status_code == 404
    stranger = {"Authorization": "Bearer isthmus_no"}
    assert asking[Role.ADMIN].put("/v1/links/east-west/pause", headers=stranger).status_code == 401
    assert lines(caplog) == []


def test_who_may_change_nothing_has_no_change_forgotten(
    asking: dict[Role, TestClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many refused changes there are, the console has what others tried; the newest is first."""
    for name in ("_trail", "_refused"):
        monkeypatch.setattr(auditing, name, deque(maxlen=3))
    asking[Role.ADMIN].put("/v1/trees/t/clusters/nowhere", json={"above": True})
    for _ in range(5):
        asking[Role.VIEWER].put("/v1/links/east-west/pause")

    assert [each.who for each in auditing.trail()] == ["a viewer"] * 3 + ["a admin"]
