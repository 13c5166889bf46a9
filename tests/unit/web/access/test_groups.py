"""Groups over HTTP: how positions are translated, and who is told what opens a copy of them."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from isthmus import config
from isthmus.clusters.administration import AsyncAdministration
from isthmus.fabric.answers import KEY_BYTES, GroupsPlan
from isthmus.fabric.async_fabric import AsyncFabric
from isthmus.groups.links import AsyncGroups
from isthmus.groups.plan import GroupPlan, PositionPlan
from isthmus.groups.positions.carrying import Standing
from isthmus.model.kafka.group import Committed
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.problem import Problem
from isthmus.web.access.guard import RateLimit
from isthmus.web.access.tokens import Role, TokenFile
from isthmus.web.app import create_app
from isthmus.web.desk import FabricDesk
from tests.unit.web.callers import DescribedClient

# Nobody listens at these ports.
CONFIGURATION = """
clusters:
  east: {bootstrap_servers: "127.0.0.1:1", offsets_copy_secret: canary-secret-of-sixteen-or-more-characters}
  west: {bootstrap_servers: "127.0.0.1:2"}
links:
  - {name: east-west, source: east, target: west, topics: {include: ["orders"]}, groups: {include: [billing]}}
  - {name: west-east, source: west, target: east, topics: {include: ["flights"]}}
"""
KEY = "/v1/links/east-west/groups/key?group=billing"


@pytest.fixture
def tokens(tmp_path: Path) -> TokenFile:
    """A file of tokens that is not there yet."""
    return TokenFile(tmp_path / "tokens.json")


def client(tokens: TokenFile, role: Role | None = None) -> TestClient:
    """Who asks, with a token of this role or without one."""
    app = create_app(FabricDesk(config.parse(CONFIGURATION)), tokens, RateLimit(1e6, 1000))
    headers = {} if role is None else {"Authorization": f"Bearer {tokens.create(str(role), role)}"}
    return DescribedClient(app, base_url="http://127.0.0.1:8087", headers=headers)


def test_an_admin_is_told_the_key_of_a_group(tokens: TokenFile, caplog: pytest.LogCaptureFixture) -> None:
    """That which the command prints; nobody keeps the answer, and the log has who got it, without the key."""
    caplog.set_level(logging.INFO, "isthmus.audit")
    answer = client(tokens, Role.ADMIN).get(KEY)

    key = AsyncFabric(config.parse(CONFIGURATION)).groups.key("billing").hex()
    assert answer.json() == {"group": "billing", "algorithm": "AES-256-GCM", "key": key}
    assert answer.headers["cache-control"] == "no-store"
    (line,) = (json.loads(each.getMessage()) for each in caplog.records if each.name == "isthmus.audit")
    assert (line["who"], line["what"], line["difference"]) == ("admin", "groups key", {"group": "billing"})
    assert key not in caplog.text


def test_a_key_is_told_nobody_else(tokens: TokenFile) -> None:
    """Neither an operator, nor whoever can reach a port that needs no token; and none where there is no secret."""
    assert client(tokens).get(KEY).status_code == 403
    assert client(tokens, Role.OPERATOR).get(KEY).status_code == 403
    answer = client(tokens, Role.ADMIN).get("/v1/links/west-east/groups/key?group=billing")
    assert (answer.status_code, answer.json()["detail"]) == (400, "no source has an offsets_copy_secret")
    assert "canary" not in answer.text


def test_positions_are_translated_as_by_the_command(tokens: TokenFile, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row for each; what keeps all of them from being known is a problem."""
    position = PositionPlan(
        topic=SourceTopic("orders"),
        partition=1,
        target_topic=TargetTopic("orders"),
        source=Committed(7),
        translated=7,
        committed=None,
        log_start=0,
        high_watermark=9,
        standing=Standing.DUE,
    )
    group = GroupPlan(group="billing", target_group="billing", standing=Standing.DUE, positions=(position,))
    plans = [
        GroupsPlan(link="east-west", source="east", target="west", way="identity", groups=(group,)),
        GroupsPlan(link="east-west", source="east", target="west", way="identity", problem=Problem("away", "Wait.")),
    ]

    async def planned(_: AsyncGroups, *, link: str | None = None, group: str | None = None) -> tuple[GroupsPlan, ...]:
        assert (link, group) == ("east-west", "billing")
        return (plans.pop(0),)

    monkeypatch.setattr(AsyncGroups, "plan", planned)
    asking, path = client(tokens), "/v1/links/east-west/groups/translate?group=billing"
    assert asking.get(path).json() == [
        {
            "link": "east-west",
            "way": "identity",
            "topic": "orders",
            "partition": 1,
            "offsets": "same",
            "source_position": 7,
            "target_topic": "orders",
            "translated": 7,
        }
    ]
    away = asking.get(path)
    assert (away.status_code, away.json()["detail"], away.json()["hint"]) == (503, "away", "Wait.")


def test_a_copy_is_read_with_the_key_of_one_group(tokens: TokenFile, monkeypatch: pytest.MonkeyPatch) -> None:
    """The key comes as a header and is given to the fabric; it is one of one group, and has to be one."""
    asked: list[dict[str, Any]] = []

    async def copied(_: AsyncAdministration, **how: Any) -> tuple[()]:
        asked.append(how)
        return ()

    monkeypatch.setattr(AsyncAdministration, "copied_commits", copied)
    asking, path, key = client(tokens, Role.VIEWER), "/v1/clusters/west/groups/copy", "ab" * KEY_BYTES
    assert asking.get(f"{path}?group=billing&source=abc", headers={"Group-Key": key}).json() == []
    assert asking.get(path).json() == []
    assert asked == [
        {"source_id": "abc", "groups": ["billing"], "key": bytes.fromhex(key)},
        {"source_id": None, "groups": (), "key": None},
    ]
    assert asking.get(path, headers={"Group-Key": key}).status_code == 422
    broken = asking.get(f"{path}?group=billing", headers={"Group-Key": "canary"})
    assert broken.status_code == 422
    assert "canary" not in broken.text
