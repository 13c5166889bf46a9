"""Which topics a run brings back by itself."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

import pytest

from isthmus.model.cluster import Cluster
from isthmus.model.configuration import LedgerSettings
from isthmus.model.lane import LaneState
from isthmus.model.link import DivergencePolicy, Link
from isthmus.model.links.progress import LinkProgress, PartitionProgress, TopicProgress
from isthmus.model.links.remedies import SOURCE_RECREATED
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.problem import Problem
from isthmus.model.selection import TopicPattern, TopicSettings
from isthmus.model.state import LinkState
from isthmus.run.recovering import SelfRecovery, diverged_topics

EAST, WEST = (Cluster(alias=alias, bootstrap_servers=("127.0.0.1:1",)) for alias in ("east", "west"))
LINK = Link(name="l", source=EAST, target=WEST, topics=TopicSettings(include=(TopicPattern.parse("*"),)))


def progress(**states: LaneState) -> LinkProgress:
    """A link with a topic of two partitions for each of these, one of them in that state."""
    return LinkProgress(
        link="l",
        source="east",
        target="west",
        state=LinkState.ACTIVE,
        topics=tuple(
            TopicProgress(
                topic=TargetTopic(name),
                source_topic=SourceTopic(name),
                state=state,
                partitions=tuple(
                    PartitionProgress(topic=TargetTopic(name), partition=number, state=each)
                    for number, each in enumerate((LaneState.ACTIVE, state))
                ),
            )
            for name, state in states.items()
        ),
    )


def test_only_what_the_source_lost_is_recovered_by_itself() -> None:
    """Whoever wrote to the target, or what the source deleted, is for an operator to judge."""
    found = progress(
        a=LaneState.ACTIVE, d=LaneState.DIVERGED, f=LaneState.FOREIGN_WRITE, g=LaneState.DATA_GAP, p=LaneState.PAUSED
    )
    assert list(diverged_topics(found)) == ["d"]


def test_what_was_created_anew_at_the_source_is_recovered_by_itself() -> None:
    """Not what was created anew at the target, nor where it is most topics of a link."""
    recreated = progress(a=LaneState.ACTIVE, r=LaneState.TOPIC_RECREATED)
    for message, there, expected in ((SOURCE_RECREATED, 1, ["r"]), (SOURCE_RECREATED, 0, []), ("the target's", 1, [])):
        topics = [replace(each, problem=Problem(message)) for each in recreated.topics if there or each.topic == "r"]
        assert list(diverged_topics(replace(recreated, topics=tuple(topics)))) == expected


def test_what_comes_back_one_after_the_other_is_not_recovered_by_itself() -> None:
    """A source that was set up anew gets its topics by and by: those that it does not have yet are not there."""
    found = progress(a=LaneState.SOURCE_DELETED, b=LaneState.SOURCE_DELETED, r=LaneState.TOPIC_RECREATED)
    topics = [replace(each, problem=Problem(SOURCE_RECREATED)) for each in found.topics]
    assert list(diverged_topics(replace(found, topics=tuple(topics)))) == []


@pytest.mark.parametrize(("policy", "tries", "looks"), [("stop", 0, 0), ("recover", 1, 4)])
def test_what_cannot_be_recovered_now_is_left_for_a_while(
    policy: DivergencePolicy, tries: int, looks: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Only by policy, without which nobody asks how the link does; an error is told and ends nothing, and the topic is
    not tried again at once.
    """
    link = replace(LINK, on_divergence=policy)
    recovery = SelfRecovery()
    sick, sound = progress(d=LaneState.DIVERGED), progress(d=LaneState.ACTIVE)
    seen = [sick, sick, sound, sick]

    async def scenario() -> None:
        for _ in range(4):
            await recovery.keep(lambda: [link], lambda: [seen.pop(0)], LedgerSettings())

    with caplog.at_level(logging.WARNING):
        asyncio.run(scenario())
    assert sum("cannot be brought back now" in record.message for record in caplog.records) == tries
    assert 4 - len(seen) == looks
