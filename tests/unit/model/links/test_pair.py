"""The states of pairs follow from those of links and lanes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from isthmus.model.lane import LaneState
from isthmus.model.links.pair import PairState, pair_state
from isthmus.model.links.progress import LinkProgress, PartitionProgress, topic_of
from isthmus.model.namespace import Namespace, NamespaceMap
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.state import RUNNING, LinkState
from isthmus.model.text.plain import plain


def partition(state: LaneState = LaneState.ACTIVE, *, lag: int = 0, lag_s: float | None = None) -> PartitionProgress:
    return PartitionProgress(
        topic=TargetTopic("x-1"), partition=0, state=state, target_end=10, source_end=10 + lag, lag_s=lag_s
    )


@pytest.mark.parametrize(
    ("partitions", "state"),
    [
        ([], PairState.FOLLOWING),
        ([partition()], PairState.FOLLOWING),
        ([partition(lag=5, lag_s=1.0)], PairState.FOLLOWING),
        ([partition(), partition(lag=5, lag_s=60.0)], PairState.CATCHING_UP),
        ([partition(lag=5)], PairState.CATCHING_UP),
        ([partition(LaneState.STARTING)], PairState.CATCHING_UP),
        ([partition(), partition(LaneState.DIVERGED)], PairState.CATCHING_UP),
        ([partition(LaneState.PAUSED)], PairState.DISCONNECTED),
        ([partition(LaneState.PAUSED), partition()], PairState.CATCHING_UP),
    ],
)
def test_a_link_at_work(partitions: list[PartitionProgress], state: PairState) -> None:
    """It follows while it lacks nothing that is older than ten seconds, in all of its partitions."""
    assert pair_state(LinkState.ACTIVE, partitions) is state


@pytest.mark.parametrize(
    ("source_end", "age_s", "state"),
    [
        (0, 5.0, PairState.FOLLOWING),
        (0, 15.0, PairState.CATCHING_UP),
        (1, 5.0, PairState.CATCHING_UP),
        (-1, 5.0, PairState.CATCHING_UP),
    ],
)
def test_a_topic_that_is_new_disturbs_no_pair(source_end: int, age_s: float, state: PairState) -> None:
    """As long as it was seen a moment ago that its source holds nothing, nothing is missing before its lane runs."""
    new = replace(partition(LaneState.STARTING), target_end=0, source_end=source_end, source_age_s=age_s)
    assert pair_state(LinkState.ACTIVE, [partition(), new]) is state


@pytest.mark.parametrize("state", sorted(set(LinkState) - set(RUNNING)))
def test_a_link_that_does_not_copy(state: LinkState) -> None:
    """Whatever its lanes said last, its pairs are disconnected."""
    assert pair_state(state, [partition()]) is PairState.DISCONNECTED


def test_each_pair_has_a_state_of_its_own() -> None:
    """A namespace that is behind leaves the others following; the link as a whole is catching up."""
    behind = partition(lag=5, lag_s=60.0)
    other = PartitionProgress(
        topic=TargetTopic("y-1"), partition=0, state=LaneState.ACTIVE, target_end=10, source_end=10
    )
    link = plain(
        LinkProgress(
            link="l",
            source="a",
            target="b",
            state=LinkState.ACTIVE,
            topics=(
                topic_of(TargetTopic("x-1"), SourceTopic("a-1"), [behind]),
                topic_of(TargetTopic("y-1"), SourceTopic("b-1"), [other]),
            ),
            namespaces=tuple(
                NamespaceMap(source=Namespace(prefix=source), target=Namespace(prefix=target))
                for source, target in (("a-", "x-"), ("b-", "y-"))
            ),
        )
    )
    assert link["pair_state"] == "CATCHING_UP"
    assert [(pair["target"], pair["state"]) for pair in link["pairs"]] == [("x-*", "CATCHING_UP"), ("y-*", "FOLLOWING")]
