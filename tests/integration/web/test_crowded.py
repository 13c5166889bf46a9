"""Many callers at once, beside a cluster that answers nobody."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from isthmus.model.cluster import Cluster
from isthmus.web.access.tokens import Role
from testing.rest.asking import Served, serving
from tests.integration.web.bodies import body_of
from tests.integration.web.bodies import name as name

pytestmark = pytest.mark.integration

_LOOKS = 40


@pytest.fixture
def stuck() -> Iterator[Cluster]:
    """A cluster that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0), backlog=1000) as listening:
        yield Cluster(alias="stuck", bootstrap_servers=(f"127.0.0.1:{listening.getsockname()[1]}",))


def test_looks_at_a_cluster_that_hangs_keep_no_failover_out(
    served: Served, name: str, stuck: Cluster, tmp_path: Path
) -> None:
    """A viewer asks for forty different things that nobody answers: an admin's failover begins before most of these
    looks have ended, and orchestrators are answered at once.
    """
    assert served.ask("POST", "/v1/links", json=body_of(name)).status_code == 201
    configuration = replace(served.configuration, clusters=(*served.configuration.clusters, stuck))
    with serving(configuration, tmp_path) as crowded, ThreadPoolExecutor(_LOOKS) as viewers:
        paths = [f"/v1/clusters/stuck/topics?topic=t{number}" for number in range(_LOOKS)]
        looks = [viewers.submit(crowded.ask, "GET", path, Role.VIEWER) for path in paths]
        assert crowded.read("/livez") == {"status": "ok"}
        begun = crowded.begin(f"/v1/links/{name}:failover?dry_run=true")
        unanswered = sum(not each.done() for each in looks)
        assert crowded.ended(begun)["state"] == "SUCCEEDED"
    assert unanswered
