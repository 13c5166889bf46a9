"""What REST answers is what docs/openapi.json says of it: values of every kind, with all that they can hold."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from isthmus import config
from isthmus.clusters.administration import TopicsReport
from isthmus.clusters.reassigning import Reassignment
from isthmus.clusters.registry import RegistryReport
from isthmus.groups.drill import GroupDrill
from isthmus.groups.plan import GroupPlan, GroupsPlan, PositionPlan
from isthmus.groups.positions.carrying import Standing
from isthmus.memory.declared import DeclaredTree
from isthmus.memory.filtering import Filters
from isthmus.memory.forgetting import Forgotten
from isthmus.memory.livesettings import LiveSettings
from isthmus.memory.provenance import Provenance
from isthmus.model.kafka.checks import CHECKS
from isthmus.model.kafka.consumption import GroupsReport
from isthmus.model.kafka.description import ClusterReport
from isthmus.model.kafka.elections import Election
from isthmus.model.kafka.findings import Finding
from isthmus.model.kafka.group import Committed
from isthmus.model.kafka.topic import Parted
from isthmus.model.lane import Gap, LaneState
from isthmus.model.links.lastknown import LastKnown
from isthmus.model.links.pauses import Pause
from isthmus.model.links.progress import GroupProgress, LinkProgress
from isthmus.model.links.promotion import Promotion
from isthmus.model.links.recovery import Recovery
from isthmus.model.links.verdict import Discrepancy, DiscrepancyKind, PartitionVerdict, TopicVerdict, Verdict
from isthmus.model.loop import Change, LoopProgress, LoopState
from isthmus.model.namespace import Namespace, NamespaceMap
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.problem import Problem
from isthmus.model.text.plain import plain
from isthmus.model.trees.positions import PositionEntry
from isthmus.offsetscopy.copies import CopiedCommit
from isthmus.recovery.replaying import QuarantinedPartition, ReplayedPartition
from isthmus.schemas.distribution import RegistrySummary, SchemasPlan
from isthmus.topics.plan import Action, LinkPlan, Plan, TopicPlan
from isthmus.topics.preflight import PartitionDecision
from isthmus.web.access.guard import ANYBODY
from isthmus.web.desk import link_summary
from isthmus.web.operations import LongOperation, OperationKind
from isthmus.web.watching import link_event
from testing.rest.answers import check_value, described
from testing.values.declarations import DECLARATION, ROOT
from testing.values.standing import link_at, partition_of, topic_at

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
        settings=LiveSettings(changed={"limits.bytes_per_s": 5}, since_ms=0, by="anna"),
        pauses=(_PAUSE,),
        problem=_PROBLEM,
    )
    return Plan(links=(link,))


def _groups() -> Any:
    position = PositionPlan(
        topic=SourceTopic("orders"),
        partition=0,
        target_topic=TargetTopic("orders"),
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
        id="1", verb="drill", target="l", link="l", by=ANYBODY, subject=None, kind=OperationKind.COMPARES, begun_at_ms=0
    )
    operation.steps.append((0, "a step"))
    return operation


def _told() -> dict[str, Any]:
    (link,) = config.parse(CONFIGURATION).links
    return {
        "LinkStatus": plain(_status()),
        "Plan": plain(_plan()),
        "LinkSummary": link_summary(link, is_declared=False),
        "GroupsPlan": plain(_groups()),
        "Operation": plain(_operation()),
        "OperationEvent": _operation().event(),
        "LinkEvent": link_event(_status()),
        "Filters": Filters(topics_include=("a",), since_ms=0, by="anna").in_force(link),
        "LiveSettings": LiveSettings(changed={"limits.bytes_per_s": 5}, since_ms=0, by="anna").in_force(link),
        "DeclaredTree": plain(DeclaredTree(declaration=DECLARATION, clusters=ROOT)),
    }


@pytest.mark.parametrize("component", _told())
def test_what_is_told_is_as_described(component: str) -> None:
    """With everything that there may be in it."""
    check_value(component, plain(_told()[component]))


@pytest.mark.parametrize(
    ("kind", "component"),
    [
        (ClusterReport, "ClusterReport"),
        (CopiedCommit, "CopiedCommit"),
        (Election, "Election"),
        (Forgotten, "Forgotten"),
        (GroupDrill, "GroupDrill"),
        (GroupsPlan, "GroupsPlan"),
        (GroupsReport, "GroupsReport"),
        (LastKnown, "LastKnown"),
        (LinkProgress, "LinkStatus"),
        (Promotion, "Promotion"),
        (Provenance, "Provenance"),
        (QuarantinedPartition, "QuarantinedPartition"),
        (Reassignment, "Reassignment"),
        (Recovery, "Recovery"),
        (RegistryReport, "RegistryReport"),
        (RegistrySummary, "RegistrySummary"),
        (ReplayedPartition, "ReplayedPartition"),
        (SchemasPlan, "SchemasPlan"),
        (TopicsReport, "TopicsReport"),
    ],
)
@settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_whatever_a_value_holds_is_as_described(kind: type, component: str, data: st.DataObject) -> None:
    """Values of all types that their fields may have."""
    check_value(component, plain(data.draw(_any(kind))))


def _any(kind: type) -> st.SearchStrategy[Any]:
    st.register_type_strategy(int, st.integers(0, 1 << 40))
    st.register_type_strategy(float, st.floats(0, 1e9))
    st.register_type_strategy(Finding, st.builds(Finding, check=st.sampled_from(sorted(CHECKS))))
    return st.from_type(kind)


def test_a_verdict_is_as_described() -> None:
    """Over REST it has its link with it."""
    found = Discrepancy(kind=DiscrepancyKind.DIFFERENT, offset_begin=1, offset_end=2, records=1, fields=("key",))
    partition = PartitionVerdict(
        partition=0, offset_begin=0, offset_end=2, records=2, size_bytes=9, different=1, findings=(found,)
    )
    topic = TopicVerdict(
        source_topic=SourceTopic("a"), target_topic=TargetTopic("b"), partitions=(partition,), problem="it is not"
    )
    verdict = Verdict(source="east", target="west", topics=(topic,), aborted="copy")
    check_value("Verification", {"equal": False, "verdicts": [{"link": "l", **plain(verdict)}]})


def test_every_operation_says_what_it_answers() -> None:
    """By the name of something, or as a list of it; and what a problem is."""
    vague = []
    for path, verbs in described()["paths"].items():
        for verb, operation in verbs.items():
            for status, response in operation["responses"].items():
                for media_type, content in response["content"].items():
                    schema = content["schema"]
                    if media_type.endswith("json") and "$ref" not in schema.get("items", schema):
                        vague.append(f"{verb} {path} {status}")
    assert vague == []


def test_what_is_not_described_is_noticed() -> None:
    """A key that came, went or changed its type is no answer as described."""
    told = plain(link_event(_status()))
    for other in ({**told, "more": 1}, {"state": None}, {**told, "topics": "1"}):
        with pytest.raises(AssertionError):
            check_value("LinkEvent", other)
