"""How links stand, as somebody is told who asks again after a long time."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from isthmus.errors import Unreachable
from isthmus.model.configuration import Configuration
from isthmus.model.link import Link
from isthmus.web import telling, watching
from isthmus.web.app import create_app
from isthmus.web.desk import FabricDesk
from isthmus.web.guard import RateLimit
from isthmus.web.tokens import TokenFile
from isthmus.web.watching import Watch
from tests.unit.metrics.standing import link_at, topic_at

NOW = (link_at(topic_at("orders")),)


async def away() -> tuple[Link, ...]:
    """Clusters that cannot be looked at."""
    raise Unreachable("nobody answers")


def test_metrics_of_long_ago_are_not_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They would be taken for those of now, while the clusters are away; beside a run they are what it said last."""
    monkeypatch.setattr(telling, "_FIRST_S", 0.0)
    looking, fed = Watch(away), Watch(away, is_fed=True)

    def status(watch: Watch) -> int:
        desk = FabricDesk(Configuration(clusters=(), links=()))
        app = create_app(desk, TokenFile(tmp_path / "tokens.json"), RateLimit(1000.0, 1000), watch)
        return int(TestClient(app, base_url="http://127.0.0.1:8087").get("/metrics").status_code)

    try:
        for watch in (looking, fed):
            watch.take(NOW)
            assert status(watch) == 200
        monkeypatch.setattr(watching, "FRESH_S", -1.0)
        assert (status(looking), status(fed)) == (503, 200)
    finally:
        looking.close()


def test_who_listens_after_a_long_time_is_told_all_links_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the next look, though nothing is other than at the last one; who knows how they stood is told what changed."""
    watch = Watch(away)

    async def told() -> list[dict[str, Any]]:
        listener = watch.happenings.listen(None, None)
        first = watch.known()
        watch.take(NOW)
        watch.happenings.close()
        stream = watch.happenings.stream(listener, [])
        data = [line[6:] async for part in stream for line in part.splitlines() if line.startswith(b"data: ")]
        return [{"first": len(first)}, *map(json.loads, data)]

    watch.take(NOW)
    monkeypatch.setattr(watching, "FRESH_S", -1.0)
    (before, link) = asyncio.run(told())
    assert (before, link["link"]) == ({"first": 0}, "east-west")


def test_who_listens_soon_is_told_what_changes() -> None:
    """What is known is known at once."""
    watch = Watch(away)
    watch.take(NOW)

    assert watch.known() == NOW
