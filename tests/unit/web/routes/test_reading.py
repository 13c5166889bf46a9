"""What is read of links whose standing is known, without a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from isthmus import config
from isthmus.fabric.async_fabric import AsyncFabric
from isthmus.model.links.progress import LinkProgress
from isthmus.web.access.guard import RateLimit
from isthmus.web.access.tokens import TokenFile
from isthmus.web.app import create_app
from isthmus.web.desk import FabricDesk
from testing.values.standing import link_at, topic_at
from tests.unit.web.callers import DescribedClient

CONFIGURATION = """
clusters:
  east: {bootstrap_servers: "127.0.0.1:1"}
  west: {bootstrap_servers: "127.0.0.1:2"}
links: [{name: east-west, source: east, target: west, topics: {include: ["orders"]}}]
"""
TOPICS = "/v1/links/east-west/topics"


@pytest.fixture
def asking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TestClient:
    """A client of a server whose link has one topic."""

    async def status(_: AsyncFabric, *, link: str | None = None) -> tuple[LinkProgress, ...]:
        assert link == "east-west"
        return (link_at(topic_at("orders")),)

    monkeypatch.setattr(AsyncFabric, "status", status)
    app = create_app(FabricDesk(config.parse(CONFIGURATION)), TokenFile(tmp_path / "tokens.json"), RateLimit(1e6, 1000))
    return DescribedClient(app, base_url="http://127.0.0.1:8087")


def test_partitions_are_told_as_in_their_topic(asking: TestClient) -> None:
    """All of them, and each by itself, with the same values."""
    told: list[dict[str, Any]] = asking.get(f"{TOPICS}/orders").json()["partitions"]

    assert told
    assert asking.get(f"{TOPICS}/orders/partitions").json() == told
    for each in told:
        assert asking.get(f"{TOPICS}/orders/partitions/{each['partition']}").json() == each


@pytest.mark.parametrize(
    "path", ["nothing/partitions", "nothing/partitions/0", "orders/partitions/99", "orders/partitions/-1"]
)
def test_a_partition_that_is_not_there_is_a_problem(asking: TestClient, path: str) -> None:
    """Of a topic that the link does not have, or beyond those that a topic has."""
    answer = asking.get(f"{TOPICS}/{path}")
    assert (answer.status_code, answer.json()["code"]) == (404, "ISTH-REQUEST")
    assert answer.json()["hint"].endswith("lists them.")
