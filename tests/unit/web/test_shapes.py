"""The keys of what REST answers, as docs/answers.json records them: none is renamed without anybody seeing it.

`python -m tests.unit.web.test_shapes` writes the file anew.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from isthmus import config
from isthmus.cli.output import shape
from isthmus.control.groups.plan import GroupPlan, GroupsPlan, PositionPlan
from isthmus.control.links.filtering import Filters
from isthmus.control.links.livesettings import LiveSettings
from isthmus.control.topics.plan import Action, LinkPlan, Plan, TopicPlan
from isthmus.control.topics.preflight import PartitionDecision
from isthmus.model.carrying import Standing
from isthmus.model.group import Committed
from isthmus.model.lane import Gap, LaneState
from isthmus.model.loop import Change, LoopProgress, LoopState
from isthmus.model.namespace import Namespace, NamespaceMap
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.pauses import Pause
from isthmus.model.positions import PositionEntry
from isthmus.model.problem import Problem
from isthmus.model.progress import GroupProgress
from isthmus.model.topic import Parted
from isthmus.web.desk import link_summary
from isthmus.web.guard import ANYBODY
from isthmus.web.operations import LongOperation
from isthmus.web.watching import link_event
from tests.unit.metrics.standing import link_at, partition_of, topic_at

ANSWERS: Final = Path(__file__).parents[3] / "docs" / "answers.json"
CONFIGURATION: Final = """
clusters: {east: {bootstrap_servers: "127.0.0.1:1"}, west: {bootstrap_servers: "127.0.0.1:2"}}
links: [{name: east-west, source: east, target: west, topics: {include: ["orders"]}}]
"""
_PROBLEM: Final = Problem("message", "hint", "ISTH-CLUSTER")
_PAUSE: Final = Pause(part=None, since_ms=0, by="anna")


def _status() -> Any:
    gaps = (Gap(1, 2),)
    topic = topic_at("orders", partition_of("orders", copied_end=7, gaps=gaps, problem=_PROBLEM))
    return link_at(
        replace(topic, parted=Parted("anna", 0)),
        groups=[GroupProgress(group="billing", standing="IN_STEP", problem=_PROBLEM)],
        loops=(LoopProgress(loop="data", state=LoopState.IN_ERROR, problem=_PROBLEM),),
        namespaces=(NamespaceMap(source=Namespace(prefix="a-"), target=Namespace(prefix="b-")),),
        problem=_PROBLEM,
        pauses=(_PAUSE,),
    )


def _partition(**more: Any) -> PartitionDecision:
    return PartitionDecision(partition=0, source=None, target_end=-1, **more)


def _plan() -> Any:
    topic = TopicPlan(
        topic=TargetTopic("orders"),
        source_topic=SourceTopic("orders"),
        action=Action.COPY,
        partitions=(_partition(refusal=_PROBLEM), _partition(unexamined=_PROBLEM), _partition(gap=Gap(1, 2))),
        reasons=(_PROBLEM,),
        notes=(_PROBLEM,),
        state=LaneState.REFUSED,
        parted=Parted("anna", 0),
    )
    link = LinkPlan(
        link="east-west",
        source="east",
        target="west",
        topics=(topic,),
        recommendations=(_PROBLEM,),
        no_longer_mirrored=(TargetTopic("gone"),),
        unmatched=(_PROBLEM,),
        changes=(Change(loop="configs", subject="topic orders", setting="a", before="1", after="2", problem=_PROBLEM),),
        filters=Filters(topics_include=("a",), since_ms=0, by="anna"),
        settings=LiveSettings(said={"limits.bytes_per_s": 5}, since_ms=0, by="anna"),
        pauses=(_PAUSE,),
        problem=_PROBLEM,
    )
    return Plan(links=(link,))


def _groups() -> Any:
    position = PositionPlan(
        topic="orders",
        partition=0,
        target_topic="orders",
        source=Committed(7),
        translated=7,
        committed=Committed(5),
        log_start=0,
        high_watermark=9,
        standing=Standing.DUE,
        commit=7,
        sent=PositionEntry(timestamp_ms=1),
    )
    group = GroupPlan(
        group="billing", target_group="billing", standing=Standing.DUE, positions=(position,), problem=_PROBLEM
    )
    return GroupsPlan(
        link="east-west",
        source="east",
        target="west",
        way="identity",
        groups=(group,),
        problem=_PROBLEM,
        notes=(_PROBLEM,),
        closed=(Namespace(prefix="a-", kind="group"),),
    )


def _operation() -> LongOperation:
    operation = LongOperation(
        id="1", verb="drill", target="l", link="l", by=ANYBODY, subject=None, only_waits=False, begun_at_ms=0
    )
    operation.steps.append((0, "a step"))
    return operation


def answers() -> dict[str, list[str]]:
    """The keys of each kind of answer; [] stands for the items of a list."""
    (link,) = config.parse(CONFIGURATION).links
    told = {
        "GET /v1/status[]": _status().as_dict(),
        "GET /v1/plan": _plan().as_dict(),
        "GET /v1/links[]": link_summary(link, is_declared=False),
        "GET /v1/links/{link}/groups[]": _groups().as_dict(),
        "GET /v1/operations/{operation}": _operation().as_dict(),
        "event: operation": _operation().event(),
        "event: link": link_event(_status()),
    }
    return {name: sorted(shape(value)) for name, value in told.items()}


@pytest.mark.parametrize("name", sorted(json.loads(ANSWERS.read_text()) if ANSWERS.exists() else {}))
def test_an_answer_has_the_keys_that_are_recorded(name: str) -> None:
    """A key that comes, goes or gets another name is in docs/answers.json as well."""
    assert answers()[name] == json.loads(ANSWERS.read_text())[name], __doc__


def test_all_answers_are_recorded() -> None:
    """Those about links, plans, groups and operations, and events."""
    assert answers().keys() == json.loads(ANSWERS.read_text()).keys(), __doc__


if __name__ == "__main__":
    ANSWERS.write_text(json.dumps(answers(), indent=1) + "\n")
