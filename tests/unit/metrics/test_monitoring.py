"""The dashboard and the alert rules: every query finds something in what a run tells, and every alert its fault."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import promql_parser
import pytest

from isthmus.metrics.catalogue import METRICS
from isthmus.model.lane import Gap, LaneState
from isthmus.model.links.progress import GroupProgress, LinkProgress, TopicProgress
from isthmus.model.links.transform import OnError, RecordFunction, Transform
from isthmus.model.loop import LoopProgress, LoopState
from isthmus.model.problem import Problem
from isthmus.model.process.receipt import LeaseTotals
from isthmus.model.state import LinkState
from testing.values.monitoring import ALERTS, DASHBOARD, PANEL_QUERIES, ROOT, RULES, filled_in
from testing.values.standing import Telling, latency_of, link_at, topic_at

OF_PROCESSES = {"process_cpu_seconds_total", "process_resident_memory_bytes"}


def well() -> LinkProgress:
    """A link that is as it should be, with a group, and a task that is watched."""
    return link_at(
        topic_at("orders"),
        groups=[GroupProgress(group="g", standing="IN_STEP", behind_records=0)],
        latency=latency_of(5.0, 6.0),
        lease_totals=LeaseTotals(),
    )


def metrics_in(query: str) -> set[tuple[str, frozenset[str]]]:
    """The metrics a query names, each with the labels it asks for."""
    found: set[tuple[str, frozenset[str]]] = set()

    def visit(expr: promql_parser.Expr) -> None:
        if isinstance(expr, promql_parser.VectorSelector):
            found.add((expr.name or "", frozenset(matcher.name for matcher in expr.matchers.matchers)))

    promql_parser.walk(promql_parser.parse(query), visit)
    return found


@pytest.mark.parametrize(
    "query",
    [*(query for _, query in PANEL_QUERIES), *(rule["expr"] for rule in RULES)],
    ids=[*(name for name, _ in PANEL_QUERIES), *ALERTS],
)
def test_a_query_asks_for_what_there_is(query: str) -> None:
    """Its metrics and their labels are those of the catalogue, and what it selects by them is told by a run."""
    catalogue = {metric.name: set(metric.labels) for metric in METRICS}
    for suffix in ("_bucket", "_sum", "_count"):
        catalogue[f"isthmus_replication_latency_seconds{suffix}"] = {"link", "source", "target", "le"}
    for name, labels in metrics_in(filled_in(query)):
        assert name in OF_PROCESSES or labels <= catalogue[name], name
    telling = Telling()
    telling.show(well())
    problem = Problem("away", "", "ISTH-UNREACHABLE")
    telling.show(link_at(topic_at("orders", state=LaneState.FOREIGN_WRITE), topic_at("a"), changed(1), problem=problem,
                         groups=[GroupProgress(group="g", standing="CATCHING_UP", behind_records=5)]))  # fmt: skip
    for selector, found in telling.scrapes.series(filled_in(query)).items():
        # Of a state that a topic is not in there is no series.
        assert found or "isthmus_mirror_state" in selector, selector
    telling.scrapes.ask(filled_in(query))


@pytest.mark.parametrize("alert", ALERTS)
def test_no_alert_fires_while_all_is_well(alert: str) -> None:
    """Nothing is lagging, paused or away, and records flow."""
    telling = Telling()
    for copied in (10, 20, 30):
        telling.show(link_at(topic_at("orders", records=copied), latency=latency_of(*[5.0] * copied)))
    assert telling.ask(ALERTS[alert]["expr"]) == {}


def lane(state: LaneState, **more: Any) -> LinkProgress:
    """A link with one topic in this state."""
    return link_at(topic_at("orders", state=state, **more))


def changed(skipped: int) -> TopicProgress:
    """A topic whose transform has failed for so many records."""
    function = RecordFunction("rules", "clean")
    return replace(topic_at("c", skipped=skipped), transform=Transform(python=function, on_error=OnError.DEAD_LETTER))


def lost(count: int) -> LinkProgress:
    """A link that has lost so many leases."""
    return link_at(lease_totals=LeaseTotals(endings={"LOST": count}))


def group(standing: str) -> LinkProgress:
    """A link that carries one group."""
    return link_at(groups=[GroupProgress(group="g", standing=standing)])


def losing(state: LaneState) -> list[tuple[LinkProgress, float]]:
    """A topic that comes back each time and is lost again, 21 times in some minutes."""
    return [(lane(LaneState.ACTIVE), 10.0), (lane(state), 10.0)] * 21


FAULTS: dict[str, list[tuple[LinkProgress | None, float]]] = {
    "IsthmusControllerSilent": [(None, 61.0)],
    "IsthmusLinkNotRun": [(link_at(state=LinkState.STANDBY), 30.0)],
    "IsthmusLinkFailed": [(link_at(state=LinkState.FAILED), 30.0)],
    "IsthmusLinkUnavailable": [(link_at(state=LinkState.UNAVAILABLE), 30.0)],
    "IsthmusLinkPaused": [(link_at(state=LinkState.PAUSED), 30.0)],
    "IsthmusTopicInError": [(lane(LaneState.DIVERGED), 30.0)],
    "IsthmusTopicHeldUp": [(lane(LaneState.BLOCKED), 30.0)],
    "IsthmusTaskInError": [(link_at(loops=(LoopProgress(loop="data", state=LoopState.IN_ERROR),)), 30.0)],
    "IsthmusDataGap": [(lane(LaneState.ACTIVE, gaps=(Gap(3, 9),)), 30.0)],
    "IsthmusRecordsNotChanged": [(link_at(changed(0)), 30.0), (link_at(changed(2)), 30.0)],
    "IsthmusLagTooOld": [(lane(LaneState.ACTIVE, source_end=11), 30.0), (lane(LaneState.ACTIVE, source_end=11), 301.0)],
    "IsthmusStalled": [(lane(LaneState.ACTIVE, source_end=11), 30.0)] * 2,
    "IsthmusSlow": [(link_at(topic_at("orders"), latency=latency_of(5.0, 6.0, *[90_000.0] * 9)), 30.0)],
    "IsthmusManyErrors": [*losing(LaneState.SOURCE_UNAVAILABLE)],
    "IsthmusNotAuthorized": [(lane(LaneState.NOT_AUTHORIZED), 30.0)],
    "IsthmusLeasesLost": [(lost(3), 30.0)],
    "IsthmusGroupBehind": [(group("CATCHING_UP"), 30.0), (group("CATCHING_UP"), 601.0)],
    "IsthmusTopicsLeftOut": [(link_at(*(topic_at(f"t{n}") for n in range(2_001))), 30.0)],
}
"""What makes an alert fire: how the link stands, and how much later; without a link nothing is said any more."""


@pytest.mark.parametrize("alert", [name for name in ALERTS if name != "IsthmusDown"])
def test_an_alert_fires_when_its_fault_is_there(alert: str) -> None:
    """From a link that was well to one that is not: what the alert asks is true then, and names what its text names."""
    telling = Telling()
    telling.show(well())
    assert telling.ask(ALERTS[alert]["expr"]) == {}
    for link, after_s in FAULTS[alert]:
        if link is None:
            telling.now_s += after_s
            telling.scrape()
        else:
            telling.show(link, after_s=after_s)
    (found, *_) = telling.ask(ALERTS[alert]["expr"])
    text = " ".join(ALERTS[alert]["annotations"].values())
    assert set(re.findall(r"\$labels\.(\w+)", text)) <= dict(found).keys()


def test_nobody_to_ask_is_an_alert() -> None:
    """Where no process tells metrics, that is what is told."""
    assert Telling().ask(ALERTS["IsthmusDown"]["expr"]) != {}


def test_every_state_is_calm_or_has_an_alert() -> None:
    """A state that comes anew has to be one or the other, at once or after a while as it lasts or heals. What the
    dashboard shows as needing attention is what `status` ends with 1 for.
    """
    calm = {state for state in LaneState if not lane(state).is_unfinished}
    rests = {LaneState.PAUSED, LaneState.HELD, LaneState.STOPPED, LaneState.SOURCE_DELETED}
    assert calm == {LaneState.STARTING, LaneState.ACTIVE, *rests}
    telling = Telling()
    telling.show(link_at(*(topic_at(str(state), state=state) for state in LaneState)))
    (shown,) = [query for title, query in PANEL_QUERIES if title == "Topics that need attention: A"]
    assert {dict(found)["state"] for found in telling.ask(filled_in(shown))} == {*map(str, LaneState)} - {
        *map(str, calm)
    }
    alerted = {
        name: set(re.findall(r"[A-Z_]{3,}", ALERTS[name]["expr"]))
        for name in ("IsthmusTopicInError", "IsthmusTopicHeldUp")
    }
    assert alerted["IsthmusTopicInError"] == {str(state) for state in LaneState if state.is_terminal}
    assert alerted["IsthmusTopicHeldUp"] == {str(s) for s in LaneState if not s.is_terminal and s not in calm}


def test_alerts_say_what_to_do() -> None:
    """Each has a severity, a summary and a description, and the commands they name are there."""
    tree = (ROOT / "src/isthmus/cli/tree.json").read_text()
    for rule in RULES:
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert rule["annotations"].keys() == {"summary", "description"}
        for command in re.findall(r"`isthmus (\w+)", str(rule["annotations"])):
            assert f'"{command}"' in tree, command


def test_the_dashboard_is_one_that_grafana_takes() -> None:
    """Panels have numbers and places of their own, and every variable a query names is defined."""
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken = [
        (x, y)
        for panel in panels
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(set(taken)) == len(taken)
    assert max(x for x, _ in taken) < 24
    defined = {variable["name"] for variable in DASHBOARD["templating"]["list"]} | {"__rate_interval"}
    named = re.findall(r"\$\{?(\w+)", json.dumps([panel["targets"] for panel in panels]))
    assert set(named) <= defined
