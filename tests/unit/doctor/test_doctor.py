"""What an examination makes of what it reads."""

from __future__ import annotations

from dataclasses import replace

import pytest

from isthmus.access import rights
from isthmus.doctor.examine import clock_finding, retention_findings, topic_plan_findings
from isthmus.kafka.admin.brokers import Operation
from isthmus.kafka.admin.clock import ClockReading
from isthmus.model.cluster import Cluster
from isthmus.model.kafka.findings import Level
from isthmus.model.link import Link
from isthmus.model.links.needs import About, Side, needs_of
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.problem import Problem
from isthmus.model.selection import TopicSettings
from isthmus.topics.plan import Action, LinkPlan, TopicPlan
from isthmus.topics.preflight import TopicPair
from testing.values.names import ORDERS
from testing.values.planned import observed, topic

LINK = Link(
    name="l",
    source=Cluster(alias="east", bootstrap_servers=("a:1",)),
    target=Cluster(alias="west", bootstrap_servers=("b:1",)),
    topics=TopicSettings(),
)
NEEDED = needs_of(LINK, Side.SOURCE, About.MIRRORED)


@pytest.mark.parametrize(
    ("ahead_ms", "uncertainty_ms", "level"),
    [(0, 1, Level.OK), (4_999, 0, Level.OK), (-6_000, 0, Level.WARN), (8_000, 4_000, Level.OK)],
)
def test_clocks_may_differ_by_seconds(ahead_ms: float, uncertainty_ms: float, level: Level) -> None:
    """A clock is wrong only as far as the reading can tell."""
    reading = ClockReading(ahead_ms=ahead_ms, uncertainty_ms=uncertainty_ms)
    assert clock_finding("east", reading).level is level


def test_unread_clock_is_said_to_be_unread() -> None:
    """What was not examined is not called fine."""
    assert "not examined" in clock_finding("east", None).message


def test_missing_rights_are_gathered_by_right() -> None:
    """One finding for each missing right, naming the topics that lack it."""
    everything = frozenset(Operation)
    allowed = {"a": everything, "b": everything - {Operation.READ}, "c": everything - {Operation.READ}}
    (finding,) = rights.topic_findings("l", "east", NEEDED, allowed)
    assert finding.level is Level.ERROR
    assert "READ is missing at east on b, c" in finding.message
    (fine,) = rights.topic_findings("l", "east", NEEDED, {"a": everything})
    assert fine.level is Level.OK


def test_many_topics_are_not_all_named() -> None:
    """A long list is cut short with its length."""
    allowed = {f"t{n:02}": frozenset[Operation]() for n in range(25)}
    found = list(rights.topic_findings("l", "east", NEEDED, allowed))
    assert all("and 15 more" in finding.message for finding in found)


def test_rights_on_the_cluster_are_wishes() -> None:
    """Mirroring works without them, only not as well."""
    levels = {finding.level for finding in rights.cluster_findings(LINK, Side.TARGET, frozenset())}
    assert levels == {Level.WARN}
    assert list(rights.cluster_findings(LINK, Side.TARGET, frozenset(Operation))) == []


def test_refusals_are_errors_and_notes_are_warnings() -> None:
    """Preflight's reasons come through with their hints."""
    topics = (
        TopicPlan(
            topic=TargetTopic("a"),
            source_topic=SourceTopic("a"),
            action=Action.REFUSE,
            reasons=(Problem("impossible", "do this"),),
        ),
        TopicPlan(
            topic=TargetTopic("b"),
            source_topic=SourceTopic("b"),
            action=Action.COPY,
            notes=(Problem("slow", "do that"),),
        ),
    )
    plan = LinkPlan(link="l", source="east", target="west", topics=topics)
    found = [(f.level, f.subject, f.hint) for f in topic_plan_findings(plan)]
    assert found[:2] == [(Level.ERROR, "l/a", "do this"), (Level.WARN, "l/b", "do that")]
    assert found[2][0] is Level.OK


def test_topics_are_told_by_their_offsets() -> None:
    """How many keep those of the source, and how many get others."""
    topics = tuple(
        TopicPlan(topic=TargetTopic(name), source_topic=SourceTopic(name), action=Action.COPY, is_mapped=name != "kept")
        for name in ("kept", "one", "two")
    )
    plan = LinkPlan(link="l", source="east", target="west", topics=topics)
    assert [finding.message for finding in topic_plan_findings(plan)] == [
        "1 topic can be mirrored with the same offsets",
        "2 topics can be mirrored with mapped offsets",
    ]


def test_patterns_that_match_nothing_are_suspicious() -> None:
    """A filter that selects nothing is told, not passed over."""
    plan = LinkPlan(link="l", source="east", target="west", unmatched=(Problem("matches no topic", "look"),))
    (finding,) = topic_plan_findings(plan)
    assert (finding.level, finding.subject, finding.message) == (Level.WARN, "l", "matches no topic")


@pytest.mark.parametrize(
    ("configs", "levels"),
    [
        ({"retention.ms": "3599999"}, [Level.WARN]),
        ({"retention.ms": "3600000"}, [Level.OK]),
        ({"retention.ms": "0", "cleanup.policy": "compact,delete"}, [Level.WARN]),
        ({"retention.ms": "0", "cleanup.policy": "compact"}, []),
        ({"retention.ms": "-1"}, []),
    ],
)
def test_a_source_that_keeps_records_for_less_than_an_hour_is_warned_of(
    configs: dict[str, str], levels: list[Level]
) -> None:
    """The topic is named, and what to raise; one that deletes nothing by age says nothing."""
    found = list(retention_findings(observed(TopicPair(name=ORDERS, source=topic(configs), target=None))))
    assert [finding.level for finding in found] == levels
    for finding in found:
        assert "least: topic orders" in finding.message
        assert ("raise retention.ms" in finding.hint) == (finding.level is Level.WARN)


def test_of_several_topics_the_shortest_retention_counts() -> None:
    """One whose records stay for ever hides none whose do not."""
    kept = {"orders": "60000", "flights": "-1", "parcels": "7200000"}
    pairs = {
        TargetTopic(name): TopicPair(
            name=TargetTopic(name), source=replace(topic({"retention.ms": kept_ms}), name=name), target=None
        )
        for name, kept_ms in kept.items()
    }
    (finding,) = retention_findings(observed(None, pairs=pairs))
    assert (finding.level, finding.message) == (
        Level.WARN,
        "the source keeps records for 0.0167 h or more (least: topic orders)",
    )
