"""Which topics `isthmus status` shows, in which order, and what --watch prints into a pipe."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Self

import pytest
from typer.testing import CliRunner

from isthmus.cli.app import app
from isthmus.cli.tables.view import Sorting, View
from isthmus.config.reading.places import SMALLEST
from isthmus.fabric.async_fabric import AsyncFabric
from isthmus.model.lane import LaneState
from isthmus.model.links.progress import LinkProgress, PartitionProgress, TopicProgress, topic_of
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.problem import Problem
from isthmus.model.state import LinkState
from isthmus.model.text.patterns import NamePattern


def topic(name: str, *lags: int, state: LaneState = LaneState.ACTIVE, source: str = "") -> TopicProgress:
    """A topic with a partition for each lag, -1 for one that is unknown."""
    partitions = [
        PartitionProgress(topic=TargetTopic(name), partition=number, state=state, target_end=0, source_end=lag)
        for number, lag in enumerate(lags)
    ]
    return topic_of(TargetTopic(name), SourceTopic(source or name), partitions)


def link(name: str, *topics: TopicProgress, state: LinkState = LinkState.ACTIVE) -> LinkProgress:
    """A link with these topics."""
    return LinkProgress(link=name, source="east", target="west", state=state, topics=topics)


LINKS = (
    link("calm", topic("a", 5), topic("b", 0)),
    link("busy", topic("c", 700, 2), topic("d", -1), topic("e", 1, 0, state=LaneState.DATA_GAP)),
    link("none", state=LinkState.STOPPED),
    link("away", state=LinkState.UNAVAILABLE),
)


def names(view: View, *, by_partition: bool = False) -> list[str]:
    """What is shown: topics, topics with partitions, or links that have none to show."""
    shown = []
    for found, item in view.items(view.of(LINKS), by_partition=by_partition):
        number = f"-{item.partition}" if isinstance(item, PartitionProgress) else ""
        shown.append(found.link if item is None else f"{item.topic}{number}")
    return shown


def test_everything_is_shown_as_it_is_configured() -> None:
    """By name nothing is moved."""
    assert names(View()) == ["a", "b", "c", "d", "e", "none", "away"]


def test_the_longest_lag_comes_first() -> None:
    """Over all links, and before all what is not known; each partition counts for itself."""
    view = View(sorting=Sorting.LAG)
    assert names(view) == ["d", "away", "c", "a", "e", "b", "none"]
    assert names(view, by_partition=True) == ["d-0", "away", "c-0", "a-0", "c-1", "e-0", "e-1", "b-0", "none"]
    assert [found.link for found in view.of(LINKS)] == ["busy", "away", "calm", "none"]


def test_what_needs_an_operator_comes_first() -> None:
    """States that last, then links that are away; what is simply behind comes after both."""
    assert names(View(sorting=Sorting.STATE))[:3] == ["away", "e", "d"]


def test_only_what_has_a_problem() -> None:
    """Topics that have stopped and links that are away; a link that nobody runs has none."""
    assert names(View(is_of_problems=True)) == ["e", "away"]
    assert names(View(is_of_problems=True, sorting=Sorting.STATE)) == ["away", "e"]
    troubled = topic("f", 0)
    partitions = (*topic("f", 0).partitions, replace(topic("f", 0, 0).partitions[1], problem=Problem("x")))
    found = View(is_of_problems=True).of([link("l", replace(troubled, partitions=partitions))])
    assert [each.partition for each in found[0].topics[0].partitions] == [1]


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [(("a",), ["a"]), (("a", "c"), ["a", "c"]), (("/[de]/",), ["d", "e"]), (("*",), ["a", "b", "c", "d", "e"])],
)
def test_topics_by_name_or_pattern(patterns: tuple[str, ...], expected: list[str]) -> None:
    """Links without such a topic are not shown, and sums are of what is."""
    view = View(topics=tuple(map(NamePattern.split, patterns)))
    assert names(view) == expected
    assert [found.lag_records for found in View(topics=(NamePattern.split("a"),)).of(LINKS)] == [5]


def test_topics_by_either_name() -> None:
    """A topic that has another name at the target is found by both."""
    links = [link("l", topic("east.orders", 1, source="orders"))]
    for name in ("orders", "east.orders"):
        assert View(topics=(NamePattern.split(name),)).of(links)


class FakeReader:
    """Has the same links at every look; the third ends the command."""

    def __init__(self, *_: object) -> None:
        self._looks = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def read(self) -> tuple[LinkProgress, ...]:
        """The links as they stand."""
        self._looks += 1
        if self._looks > 2:
            raise KeyboardInterrupt
        return LINKS


@pytest.mark.parametrize("output", [(), ("-o", "json"), ("-o", "jsonl")])
def test_watching_in_a_pipe_is_a_line_for_each_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: tuple[str, ...]
) -> None:
    """JSON with the moment of the look, narrowed and sorted as a table would be."""
    monkeypatch.setattr(AsyncFabric, "reader", FakeReader)
    (tmp_path / "isthmus.yaml").write_text(SMALLEST)
    given = ["-c", str(tmp_path / "isthmus.yaml"), "--interval", "100ms", "--sort", "lag", "--topic", "/[ac]/"]

    done = CliRunner().invoke(app, ["status", "--watch", *given, *output])

    assert done.exit_code == 130
    looks = [json.loads(line) for line in done.stdout.splitlines()]
    assert [[found["link"] for found in look["links"]] for look in looks] == [["busy", "calm"]] * 2
    assert looks[0]["at"] < looks[1]["at"]


@pytest.mark.parametrize("output", ["yaml", "name"])
def test_watching_has_no_other_form(output: str) -> None:
    """What cannot be told look by look is refused, with what can."""
    done = CliRunner().invoke(app, ["status", "--watch", "-o", output])
    assert done.exit_code == 2
    assert "-o json" in done.stderr
