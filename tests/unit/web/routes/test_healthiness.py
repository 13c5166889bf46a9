"""What orchestrators are told by a server, and by a run that serves."""

from __future__ import annotations

from pathlib import Path

from fastapi.testclient import TestClient

from isthmus.model.configuration import Configuration
from isthmus.model.problem import Problem
from isthmus.model.state import LinkState
from isthmus.web.access.guard import RateLimit
from isthmus.web.access.tokens import Role, TokenFile
from isthmus.web.app import create_app
from isthmus.web.desk import FabricDesk
from isthmus.web.watching import Watch
from testing.rest.browsing import no_links
from testing.values.standing import link_at, topic_at
from tests.unit.web.callers import DescribedClient

AWAY = link_at(topic_at("orders"), state=LinkState.UNAVAILABLE, problem=Problem("cluster east does not answer"))


def asking(tokens: TokenFile, *, is_fed: bool) -> tuple[TestClient, Watch]:
    """A client of a server, and what a run feeds."""
    watch = Watch(no_links, is_fed=is_fed)
    app = create_app(FabricDesk(Configuration(clusters=(), links=())), tokens, RateLimit(1000, 1000), watch)
    return DescribedClient(app, base_url="http://127.0.0.1:8087"), watch


def test_a_run_that_serves_answers_as_its_metrics_do(tmp_path: Path) -> None:
    """Not ready before it says something, and then for the reason that there is."""
    client, watch = asking(TokenFile(tmp_path / "tokens.json"), is_fed=True)
    paths = ("/livez", "/readyz", "/health")

    assert [client.get(path).status_code for path in paths] == [200, 503, 503]
    watch.take((AWAY,))
    ready, health = client.get("/readyz"), client.get("/health")
    assert ready.json()["reasons"] == ["link east-west is UNAVAILABLE: cluster east does not answer"]
    assert (health.status_code, health.json()["links"][0]["state"]) == (503, "UNAVAILABLE")
    watch.take((link_at(topic_at("orders")),))
    assert [client.get(path).status_code for path in paths] == [200, 200, 200]


def test_a_stranger_is_told_no_names(tmp_path: Path) -> None:
    """Where tokens are needed only the status is told without one."""
    tokens = TokenFile(tmp_path / "tokens.json")
    headers = {"Authorization": f"Bearer {tokens.create('alice', Role.VIEWER)}"}
    client, watch = asking(tokens, is_fed=True)
    watch.take((AWAY,))

    assert client.get("/readyz").json() == {"status": "unavailable"}
    assert client.get("/health").json().keys() == {"status", "version"}
    assert "reasons" in client.get("/readyz", headers=headers).json()


def test_a_server_that_runs_nothing_speaks_for_itself(tmp_path: Path) -> None:
    """However the links stand."""
    client, watch = asking(TokenFile(tmp_path / "tokens.json"), is_fed=False)
    watch.take((AWAY,))

    assert [client.get(path).status_code for path in ("/livez", "/readyz", "/health")] == [200, 200, 200]


def test_a_server_that_runs_nothing_tells_no_metrics_of_a_run(tmp_path: Path) -> None:
    """A link that another process runs is told with its lag, and not as one of which nothing is copied."""
    told = {}
    for is_fed in (True, False):
        client, watch = asking(TokenFile(tmp_path / "tokens.json"), is_fed=is_fed)
        watch.take((link_at(topic_at("orders", source_end=30)),))
        told[is_fed] = client.get("/metrics").text

    for metric in ("isthmus_up", "isthmus_link_records_replicated_total", "isthmus_replication_latency_seconds_count"):
        assert f"{metric}{{" in told[True]
        assert f"{metric}{{" not in told[False]
    assert all("isthmus_link_lag_records{" in text for text in told.values())
