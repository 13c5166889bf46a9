"""What one more broker that fails would cost."""

from __future__ import annotations

import pytest

from isthmus.model.kafka.brokersettings import BrokerSetting, shared_settings
from isthmus.model.kafka.durability import OFFSETS_TOPIC, margin_findings, offsets_findings
from isthmus.model.kafka.findings import Level
from isthmus.model.kafka.partitions import PartitionState

TIMEOUT = BrokerSetting("offsets.commit.timeout.ms", "5000", (1, 2, 3))


def state(
    topic: str, replicas: int, least: int | None, *, in_sync: int | None = None, leader: int = 1
) -> PartitionState:
    """A partition with so many replicas."""
    brokers = tuple(range(1, replicas + 1))
    return PartitionState(topic, 0, leader, 0, brokers, brokers[: replicas if in_sync is None else in_sync], least)


@pytest.mark.parametrize(
    ("found", "checks"),
    [
        (state("orders", 3, 2), []),
        (state("orders", 3, None), []),
        (state("orders", 1, 1), ["one-replica"]),
        (state("orders", 3, 1), ["min-isr-one"]),
        (state("orders", 3, 3), ["no-margin"]),
        (state("orders", 2, 2), ["no-margin"]),
    ],
)
def test_margins(found: PartitionState, checks: list[str]) -> None:
    """Each way of having no margin has a name; what we may not see is no finding."""
    assert [finding.check for finding in margin_findings("east", [found], 3)] == checks


def test_few_brokers_are_told() -> None:
    """Three are needed for one to fail."""
    assert [finding.check for finding in margin_findings("east", [], 2)] == ["brokers"]
    assert list(margin_findings("east", [], 3)) == []


def test_many_topics_are_one_finding() -> None:
    """The first few are named."""
    (finding,) = margin_findings("east", [state(f"t{number}", 1, 1) for number in range(9)], 3)
    assert finding.message.startswith("9 partitions of 9 topics (t0, t1, t2, t3, t4 and 4 more) have one replica")


def test_commits_that_suffer_are_told() -> None:
    """What becomes of consumers is said, with the time after which it does; other topics say nothing of commits."""
    offline = state(OFFSETS_TOPIC, 3, 2, leader=-1)
    short = state(OFFSETS_TOPIC, 3, 2, in_sync=1)
    found = list(offsets_findings("east", [offline, short, state("orders", 3, 2, in_sync=1)], "compact", [TIMEOUT]))
    assert [finding.level for finding in found] == [Level.ERROR, Level.ERROR]
    assert "1 partition of 2 without a leader" in found[0].message
    assert "after offsets.commit.timeout.ms (5000 ms)" in found[1].message


@pytest.mark.parametrize(("policy", "count"), [("compact", 0), ("compact,delete", 0), ("delete", 1), (None, 0)])
def test_a_topic_of_commits_is_compacted(policy: str | None, count: int) -> None:
    """Else positions go by their age."""
    assert len(list(offsets_findings("east", [state(OFFSETS_TOPIC, 3, 2)], policy, []))) == count


def test_settings_are_told_once_where_brokers_agree() -> None:
    """A line for each value that a setting has."""
    told = {1: {"a": "1", "b": "x"}, 2: {"a": "1", "b": "y"}}
    assert shared_settings(told) == (
        BrokerSetting("a", "1", (1, 2)),
        BrokerSetting("b", "x", (1,)),
        BrokerSetting("b", "y", (2,)),
    )
