"""When a checkpoint is written, and where it says that a group goes on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from isthmus.groups.plan import GroupPlan, GroupsPlan, PositionPlan
from isthmus.groups.positions.carrying import Standing
from isthmus.kafka.client import Client
from isthmus.lanes.maps import LinkMaps
from isthmus.loops.loop import LinkView
from isthmus.mirrormaker.checkpoints import checkpoints_due, is_news
from isthmus.model.cluster import Cluster
from isthmus.model.kafka.group import NO_OFFSET, Committed
from isthmus.model.kafka.mirrormaker_records import Checkpoint, CheckpointKey
from isthmus.model.lane import LaneKey, LaneReport, LaneState
from isthmus.model.link import Link
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.selection import TopicSettings
from isthmus.topics.plan import LinkPlan
from testing.values.groups import SOME

KEY = CheckpointKey("g", TargetTopic("t"), 0)
PREVIOUS = Checkpoint(KEY, 100, 200, "of mine")
EAST, WEST = (Cluster(alias=alias, bootstrap_servers=(f"{alias}:1",)) for alias in ("east", "west"))
LINK = Link(name="l", source=EAST, target=WEST, topics=TopicSettings())
POSITION = PositionPlan(
    topic=SourceTopic("here"),
    partition=0,
    target_topic=TargetTopic("t"),
    source=Committed(100, metadata="of mine"),
    translated=100,
    committed=None,
    log_start=0,
    high_watermark=500,
    standing=Standing.IN_STEP,
)
MAPPED = replace(
    POSITION, target_topic=TargetTopic("orders"), translated=None, log_start=None, high_watermark=None, is_mapped=True
)


def due(*positions: PositionPlan, maps: LinkMaps = SOME, copied_end: int = -1) -> list[Checkpoint]:
    """What is to be written of a group with these positions, before anything was."""
    plan = LinkPlan(link="l", source="east", target="west")
    group = GroupPlan(group="g", target_group="there", standing=Standing.IN_STEP, positions=positions)
    key = LaneKey(TargetTopic("t"), 0)
    view = LinkView(
        link=LINK,
        source=Client(EAST),
        target=Client(WEST),
        plan=plan,
        reports={key: LaneReport(key=key, state=LaneState.ACTIVE, position=copied_end)},
        groups=GroupsPlan(link="l", source="east", target="west", way="identity", groups=(group,)),
    )
    return checkpoints_due(view, {}, maps)


def test_the_first_one_is_news() -> None:
    """A position that was never told is told."""
    assert is_news(PREVIOUS, None, 500)


def test_the_same_is_told_once() -> None:
    """Nothing is written while nothing changes; other metadata is a change."""
    assert not is_news(PREVIOUS, PREVIOUS, 500)
    assert is_news(Checkpoint(KEY, 100, 200, "of others"), PREVIOUS, 500)


def test_a_group_that_moves_on_is_told() -> None:
    """Also where only the source's position moved: over a record that was not copied."""
    assert is_news(Checkpoint(KEY, 101, 201), PREVIOUS, 500)
    assert is_news(Checkpoint(KEY, 101, 200), PREVIOUS, 500)


def test_only_a_rewound_group_goes_back() -> None:
    """A lower place of the same position or a later one would be a mistake of ours."""
    assert is_news(Checkpoint(KEY, 99, 199), PREVIOUS, 500)
    assert not is_news(Checkpoint(KEY, 100, 199), PREVIOUS, 500)
    assert not is_news(Checkpoint(KEY, 101, 199), PREVIOUS, None)


def test_a_checkpoint_beyond_the_log_does_not_count() -> None:
    """The target topic was made anew: what was told before is of another log."""
    assert is_news(Checkpoint(KEY, 101, 11), PREVIOUS, 11)


def test_same_offsets_are_told_as_they_are() -> None:
    """With the group's name at the source, the topic's at the target, and the metadata of the commit."""
    assert due(POSITION) == [Checkpoint(KEY, 100, 100, "of mine")]


@pytest.mark.parametrize(("high_watermark", "copied_end"), [(99, -1), (None, 99)])
def test_nothing_is_told_before_its_data_is_there(high_watermark: int | None, copied_end: int) -> None:
    """A position beyond what was copied waits, and is told once the last record before it is durable."""
    waiting = replace(POSITION, high_watermark=high_watermark)

    assert due(waiting, copied_end=copied_end) == []
    assert due(waiting, copied_end=100) == [Checkpoint(KEY, 100, 100, "of mine")]


def test_where_nothing_was_copied_the_beginning_alone_is_told() -> None:
    """With the same offsets 0 is 0 from the start, and nothing behind it is told; what is mapped waits for its map."""
    empty = replace(POSITION, source=Committed(0), translated=0, high_watermark=0)
    assert due(empty) == [Checkpoint(KEY, 0, 0)]
    assert due(replace(empty, source=Committed(1), translated=1)) == []
    assert due(replace(MAPPED, partition=1, source=Committed(0))) == []


def test_mapped_positions_are_told_by_their_map() -> None:
    """Also where the link's groups are carried in another way, which says nothing of such a topic."""
    standing: dict[str, Any] = {"standing": Standing.OFFSETS_DIFFER}
    positions = [replace(MAPPED, source=Committed(offset), **standing) for offset in (0, 4, 5, 10, 11)]

    assert [(one.upstream, one.downstream) for each in positions for one in due(each)] == [
        (0, 10),
        (4, 14),
        (5, 40),
        (10, 45),
    ]


@pytest.mark.parametrize(
    "changed",
    [
        {"target_topic": None, "standing": Standing.NOT_MIRRORED},
        {"standing": Standing.MIRROR_ENDED},
        {"source": Committed(NO_OFFSET)},
    ],
)
def test_what_is_no_copy_is_not_told(changed: dict[str, Any]) -> None:
    """Topics that are not mirrored, partitions that are no copies any more, and positions that are unknown."""
    assert due(replace(POSITION, **changed)) == []


def test_a_position_is_not_below_the_log() -> None:
    """What the target has deleted already cannot be read: the group begins with what is left."""
    assert due(replace(POSITION, log_start=150)) == [Checkpoint(KEY, 100, 150, "of mine")]


def test_positions_on_copies_of_the_targets_own_topics_are_told_at_home() -> None:
    """Exactly, or not yet: this link's maps know nothing of them."""
    copied = replace(POSITION, topic=SourceTopic("west.t"), translated=40, is_returning=True, is_mapped=True)
    assert due(copied) == [Checkpoint(KEY, 100, 40, "of mine")]
    assert due(replace(copied, standing=Standing.CATCHING_UP)) == []
    assert due(replace(copied, translated=None, standing=Standing.WAITING_FOR_MAP)) == []
