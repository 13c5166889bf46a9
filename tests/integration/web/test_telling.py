"""Events as they happen, and metrics, of links that nobody runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families

from isthmus.web.access.tokens import Role
from testing.patience import TERM_S
from testing.rest.asking import Served

pytestmark = pytest.mark.integration


def events(answer: httpx2.Response) -> Iterator[tuple[str, dict[str, Any]]]:
    """What is told, event by event."""
    kind = ""
    for line in answer.iter_lines():
        if line.startswith("event: "):
            kind = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield kind, json.loads(line.removeprefix("data: "))


def test_events_are_told_as_they_happen(served: Served) -> None:
    """How the link stands first, then what becomes of it by a pause, and an operation from its beginning to its end."""
    headers = {"Authorization": f"Bearer {served.tokens[Role.VIEWER]}"}
    with httpx2.stream("GET", f"{served.base}/v1/events?link={served.link}", headers=headers, timeout=TERM_S) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        told = events(answer)
        kind, first = next(told)
        assert (kind, first["link"], first["lag_records"]) == ("link", served.link, 20)
        served.ask("PUT", "/v1/links/{link}/pause")
        assert next(each for _, each in told if each["state"] == "PAUSED")["states"] == {"PAUSED": 1}
        served.ask("PUT", "/v1/links/{link}/resume")
        begun = served.begin("/v1/links/{link}:recover?dry_run=true")
        operation: list[dict[str, Any]] = []
        while not operation or operation[-1]["state"] == "RUNNING":
            kind, each = next(told)
            operation += [each] if kind == "operation" else []
        assert {each["operation"] for each in operation} == {begun.rpartition("/")[2]}
        assert [each["state"] for each in operation][:: len(operation) - 1] == ["RUNNING", "SUCCEEDED"]


def test_metrics_are_told_of_links_that_others_run(served: Served) -> None:
    """To who may look, in Prometheus' format."""
    assert served.ask("GET", "/metrics", None).status_code == 401
    answer = served.ask("GET", "/metrics", Role.VIEWER)

    families = {each.name: each for each in text_string_to_metric_families(answer.text)}
    lags = {each.labels["link"]: each.value for each in families["isthmus_replication_lag_records"].samples}
    assert lags[served.link] == 20
