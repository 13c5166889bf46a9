"""A wait over HTTP, for links whose clusters do not answer."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from isthmus import config
from isthmus.web.access.guard import RateLimit
from isthmus.web.access.tokens import TokenFile
from isthmus.web.app import create_app
from isthmus.web.desk import FabricDesk
from testing.patience import TERM_S
from tests.unit.web.callers import DescribedClient

# Nobody listens at these ports.
CONFIGURATION = """
clusters:
  east: {bootstrap_servers: "127.0.0.1:1"}
  west: {bootstrap_servers: "127.0.0.1:2"}
links: [{name: east-west, source: east, target: west, topics: {include: ["orders"]}}]
"""


@pytest.fixture
def asking(tmp_path: Path) -> TestClient:
    """A client of a server that needs no token."""
    desk = FabricDesk(config.parse(CONFIGURATION))
    app = create_app(desk, TokenFile(tmp_path / "tokens.json"), RateLimit(1e6, 1000))
    return DescribedClient(app, base_url="http://127.0.0.1:8087")


def ended(asking: TestClient, body: dict[str, Any]) -> dict[str, Any]:
    """The operation that a wait came to."""
    begun = asking.post("/v1/links/east-west:wait", json=body)
    assert begun.status_code == 202, begun.text
    deadline = time.monotonic() + TERM_S
    while (found := asking.get(begun.headers["Location"]).json())["state"] == "RUNNING":
        assert time.monotonic() < deadline, found
        time.sleep(0.05)
    return dict(found)


def test_a_wait_ends_with_what_it_found(asking: TestClient) -> None:
    """As soon as it is so, or when the time is over: both are results, and the progress says how the link stood."""
    met = ended(asking, {"conditions": ["state=UNAVAILABLE"], "timeout_s": TERM_S})
    late = ended(asking, {"conditions": ["caught-up", "lag<=5"], "timeout_s": 0})

    assert (met["state"], met["result"]["met"], met["result"]["state"]) == ("SUCCEEDED", True, "UNAVAILABLE")
    assert (late["state"], late["result"]["met"], late["result"]["unmet"]) == (
        "SUCCEEDED",
        False,
        ["caught-up", "lag<=5"],
    )
    assert late["result"]["lag_records"] is None
    assert "east-west is UNAVAILABLE" in late["progress"][0]["step"]


@pytest.mark.parametrize(
    ("link", "body", "status"),
    [
        ("nothing", {"conditions": ["caught-up"]}, 404),
        ("east-west", {"conditions": ["soon"]}, 400),
        ("east-west", {"conditions": ["state=NOWHERE"]}, 400),
        ("east-west", {"conditions": []}, 422),
        ("east-west", {"conditions": ["caught-up"], "timeout_s": 1e9}, 422),
    ],
)
def test_a_wait_that_cannot_end_does_not_begin(
    asking: TestClient, link: str, body: dict[str, Any], status: int
) -> None:
    """For a link that is not there, a condition that is none, or longer than a day."""
    answer = asking.post(f"/v1/links/{link}:wait", json=body)
    assert answer.status_code == status, answer.text
    assert asking.get("/v1/operations").json() == []
