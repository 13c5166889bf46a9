"""What a take-over concludes from both logs of a partition."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from isthmus.kafka.client import Client
from isthmus.mirrormaker.alignment import Aligned
from isthmus.mirrormaker.takeover.examination import BothLogs, Examiner
from isthmus.model.cluster import Cluster
from isthmus.model.kafka.log import LogRange
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.translation import MappedRange

PAIR = BothLogs(
    source_topic=SourceTopic("orders"),
    target_topic=TargetTopic("east.orders"),
    partition=0,
    source=LogRange(0, 50, 50),
    target=LogRange(0, 30, 30),
    committed=40,
)
FOREIGN = Aligned(begin=40, ranges=(), foreign=30, foreign_at=(0,))


def problem(pair: BothLogs, found: Aligned, *, begins_late: bool = True) -> str:
    """Why it is refused, where records of others are passed over; "" where it is not."""
    cluster = Cluster(alias="west", bootstrap_servers=("127.0.0.1:1",))
    examiner = Examiner(
        Client(cluster),
        Client(cluster),
        is_whole=False,
        allows_foreign=True,
        begins_late=begins_late,
        on_read=lambda _: None,
    )
    refused = examiner._problem(pair, found)
    return "" if refused is None else refused.message


def test_a_source_that_was_made_anew_is_none_whose_beginning_was_left_out() -> None:
    """A flow that began late has at least the last record before its position at the target."""
    assert "has no record of the source: that topic was created again" in problem(PAIR, FOREIGN)


@pytest.mark.parametrize(
    ("pair", "found"),
    [
        ({}, {"ranges": (MappedRange(39, 0, 1),)}),
        ({}, {"foreign": 0}),
        ({"target": LogRange(5, 30, 30)}, {}),
        ({"source": LogRange(40, 50, 50)}, {}),
        ({"is_target_compacted": True}, {}),
        ({"is_source_compacted": True}, {}),
        ({"committed": -1}, {}),
    ],
    ids=str,
)
def test_where_copies_may_be_gone_others_are_passed_over(pair: dict[str, Any], found: dict[str, Any]) -> None:
    """Or where one is there: then all the others are of somebody else, as was said."""
    assert problem(replace(PAIR, **pair), replace(FOREIGN, **found)) == ""
