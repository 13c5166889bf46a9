"""Conditions that somebody waits for, and lengths of time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from isthmus.errors import ConfigError
from isthmus.model.gateways.synchrony import Synchrony, SyncState
from isthmus.model.lane import LaneState
from isthmus.model.links.progress import LinkProgress, PartitionProgress, TopicProgress, topic_of
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.problem import Problem
from isthmus.model.state import LinkState
from isthmus.model.text.duration import parse_duration
from isthmus.status.condition import SourceEnds, WaitCondition, source_ends


def topic(lag: int, state: LaneState = LaneState.ACTIVE, **known: Any) -> TopicProgress:
    """A topic of one partition that is so many records behind."""
    partition = PartitionProgress(
        topic=TargetTopic("orders"), partition=0, state=state, target_end=0, source_end=lag, waiting_records=0
    )
    return topic_of(TargetTopic("orders"), SourceTopic("orders"), [replace(partition, **known)])


def link(*topics: TopicProgress, state: LinkState = LinkState.ACTIVE) -> LinkProgress:
    """A link with these topics."""
    return LinkProgress(link="l", source="east", target="west", state=state, topics=topics)


def holds(text: str, found: LinkProgress | TopicProgress, begun: SourceEnds | None = None) -> bool:
    """Whether a condition holds, of sources that ended at `begun` when the wait began, or as they do now."""
    condition = WaitCondition.parse(text, of_topic=isinstance(found, TopicProgress))
    return condition.holds(found, source_ends(found) if begun is None else begun)


@pytest.mark.parametrize("state", [LaneState.ACTIVE, LaneState.STOPPED, LaneState.PAUSED])
def test_caught_up_is_that_nothing_is_left(state: LaneState) -> None:
    """Whoever copied it, and whether anybody runs it still."""
    assert holds("caught-up", topic(0, state))
    assert holds("caught-up", link(topic(0, state), topic(0)))
    assert not holds("caught-up", topic(1, state))
    assert not holds("caught-up", link(topic(0, state), topic(1)))


def test_what_is_in_trouble_is_not_caught_up() -> None:
    """A partition that others wrote to is no copy: that its source has nothing more is no lag of 0."""
    for found in (topic(0, LaneState.FOREIGN_WRITE, target_end=9, proven_end=end) for end in (0, -1)):
        assert not holds("caught-up", found)
        assert not holds("caught-up", link(found))
        assert not holds("lag=0", found)
        assert found.lag_records == -1
    assert topic(7, LaneState.FOREIGN_WRITE, target_end=9, proven_end=5).lag_records == 2
    assert not holds("caught-up", replace(topic(0), problem=Problem("x")))


@pytest.mark.parametrize(("lag", "expected"), [(0, True), (10, True), (11, False)])
def test_lag_is_at_most(lag: int, expected: bool) -> None:
    """Both ways of writing it mean the same."""
    assert holds("lag<=10", topic(lag)) is holds("lag=10", link(topic(lag))) is expected


def test_links_are_also_in_states_of_pairs() -> None:
    """FOLLOWING and IN_SYNC have no other verb that waits for them; topics are in no such state."""
    following = link(topic(0))
    assert holds("state=FOLLOWING", following)
    assert holds("state=ACTIVE", following)
    assert not holds("state=IN_SYNC", following)
    in_sync = replace(following, sync=Synchrony(state=SyncState.IN_SYNC))
    assert holds("state=in_sync", in_sync)
    assert not holds("state=FOLLOWING,SYNCING", in_sync)
    with pytest.raises(ConfigError, match="IN_SYNC is no state of topics"):
        WaitCondition.parse("state=IN_SYNC", of_topic=True)


def test_what_is_not_known_now_holds_nothing() -> None:
    """Ends that were seen long ago, ends that are unknown, and clusters that are away say nothing about the lag."""
    for known in ({"source_age_s": 11.0}, {"target_age_s": 11.0}, {"source_end": -1}):
        assert not holds("caught-up", topic(0, **known))
        assert not holds("lag<=1000", link(topic(0, **known)))
    assert not holds("caught-up", link(topic(0), state=LinkState.UNAVAILABLE))
    assert holds("caught-up", topic(0, state_age_s=3600.0))


def test_caught_up_goes_by_the_ends_at_the_beginning() -> None:
    """What producers write after that is not waited for; what is not known at the beginning is, until it is known."""
    begun = source_ends(topic(100))
    assert begun is not None
    assert not holds("caught-up", topic(150, target_end=99), begun)
    assert holds("caught-up", topic(150, target_end=100), begun)
    assert holds("caught-up", link(topic(150, target_end=100)), begun)
    assert source_ends(topic(100, source_age_s=11.0)) is None
    # What is beyond its source is no copy of it.
    assert not holds("caught-up", topic(150, target_end=151), begun)
    # A partition that is not seen any more may lack anything.
    assert not holds("caught-up", link(), begun)


def test_open_transactions_count_unless_they_are_left_out() -> None:
    """What waits for one is not there yet: only whoever asks for what is committed is done."""
    found = topic(0, waiting_records=500, waiting_s=40.0)
    assert holds("committed", found)
    assert not holds("caught-up", found)
    assert not holds("lag<=499", link(found))
    assert holds("lag<=500", link(found))
    assert not holds("lag<=1000", topic(0, waiting_records=-1))
    assert not holds("caught-up", topic(0, waiting_records=-1))


@pytest.mark.parametrize("known", [{"lag_s": 30.0}, {"lag_s": 1.0, "waiting_records": 3, "waiting_s": 30.0}])
def test_lag_in_seconds_is_the_age_of_the_oldest_record(known: dict[str, Any]) -> None:
    """One that waits for an open transaction included; an age that nobody tells may be any."""
    assert holds("lag_seconds<=30", topic(5, **known))
    assert not holds("lag_seconds<=29.5", link(topic(5, **known)))
    assert holds("lag_seconds<=0", topic(0))
    assert not holds("lag_seconds<=1000000000", topic(5))


def test_state_is_one_of_those_named() -> None:
    """In any case of letters; links and topics have states of their own."""
    assert holds("state=active", link())
    assert holds("state=PAUSED,ACTIVE", topic(0))
    assert not holds("state=PAUSED", topic(0))
    with pytest.raises(ConfigError, match="DATA_GAP is no state of links"):
        WaitCondition.parse("state=DATA_GAP", of_topic=False)
    with pytest.raises(ConfigError) as refused:
        WaitCondition.parse("state=ACTVE", of_topic=True)
    assert refused.value.hint.startswith("Did you mean ACTIVE? ")


@pytest.mark.parametrize("text", ["", "lag", "lag<5", "lag<=-1", "ready", "caught-up=1"])
def test_what_is_no_condition_is_refused(text: str) -> None:
    """With all there are in the hint."""
    with pytest.raises(ConfigError) as refused:
        WaitCondition.parse(text, of_topic=False)
    assert "caught-up" in refused.value.hint


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30", 30), ("1.5", 1.5), ("500ms", 0.5), ("30s", 30), ("5m", 300), ("1h30m", 5400), ("2 d", 172_800), ("0", 0)],
)
def test_durations(text: str, seconds: float) -> None:
    """Numbers with units, several of them, or plain seconds."""
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "m", "-5m", "5 minutes", "1h30"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    """Rather than taken for something else."""
    with pytest.raises(ConfigError, match="no length of time"):
        parse_duration(text)
