"""Which offsets a topic's records get: what is asked for, what was begun, and what is possible."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any

import pytest

from isthmus.engine.outlook import Outlook
from isthmus.kafka.metadata import NO_TOPIC_ID
from isthmus.memory.claims import Claims
from isthmus.model.kafka.log import LogRange
from isthmus.model.kafka.topic import LeftInTier, Parted, TopicIds
from isthmus.model.lane import LaneState
from isthmus.model.links.firstlook import FirstLook
from isthmus.model.links.transform import RecordFunction, Transform
from isthmus.model.naming import SourceTopic
from isthmus.model.offsets import EARLIEST, EARLIEST_LOCAL, LATEST, Cursor, OffsetPolicy, RemotePolicy
from isthmus.model.problem import Problem
from isthmus.model.selection import TopicPattern
from isthmus.topics.plan import Action, TopicPlan
from isthmus.topics.planning import plan_link, with_parted
from isthmus.topics.preflight import TopicMode, TopicPair
from testing.values.names import ORDERS, SOURCE_ORDERS
from testing.values.planned import LINK, observed, topic

SAME, MAPPED, AUTO = OffsetPolicy


def pair(*, target: dict[str, str] | None = None, end: int = 0, partitions: int = 1, **fields: Any) -> TopicPair:
    """A source of 20 offsets, and a target that ends at `end`; without `target` there is none."""
    return TopicPair(
        name=ORDERS,
        source=topic(),
        target=None if target is None else topic(target, partitions=partitions),
        source_ranges={0: LogRange(5, 20, 20)},
        target_ranges={} if target is None else dict.fromkeys(range(partitions), LogRange(0, end, end)),
        **fields,
    )


def planned(
    found: TopicPair,
    offsets: OffsetPolicy,
    *,
    recorded: bool | None = None,
    start: int = EARLIEST,
    remote: RemotePolicy = RemotePolicy.COPY,
    local_start: int | None = None,
    left: tuple[LeftInTier, ...] = (),
    **link: Any,
) -> TopicPlan:
    """The plan of the topic; `recorded` says that it was begun, and whether with mapped offsets. `local_start` is where
    its log begins on the brokers' own disks, if it has a remote tier.
    """
    known = {}
    if recorded is not None:
        target_id = uuid.uuid4() if found.target is None else found.target.topic_id
        known[ORDERS] = TopicIds(
            source_topic=SOURCE_ORDERS,
            source=found.source.topic_id,
            target=target_id,
            is_mapped=recorded,
            left=left,
        )
    settings = replace(LINK.topics, offsets=offsets, start=start, remote=remote)
    seen = replace(observed(found), link=replace(LINK, topics=settings, **link))
    if local_start is not None:
        seen = replace(seen, local_starts={ORDERS: {0: local_start}})
    (plan,) = plan_link(seen, Claims(), known).topics
    return plan


@pytest.mark.parametrize(
    ("offsets", "mode"), [(SAME, TopicMode.REFUSED), (MAPPED, TopicMode.MAPPED), (AUTO, TopicMode.MAPPED)]
)
def test_what_cannot_have_the_same_offsets_is_mapped_if_it_may_be(offsets: OffsetPolicy, mode: TopicMode) -> None:
    """More partitions than the source are no obstacle for mapped offsets; auto says what made it choose."""
    plan = planned(pair(target={}, partitions=3), offsets)
    assert plan.mode is mode
    assert any("3 partitions" in note.message for note in plan.notes) is (offsets is AUTO)
    assert [lane.is_mapped for lane in plan.lanes] == ([] if offsets is SAME else [True])


@pytest.mark.parametrize(
    ("found", "start", "is_mapped"),
    [
        (pair(), EARLIEST, False),
        (pair(target={}), EARLIEST, False),
        (pair(target={}, end=1), EARLIEST, True),
        (pair(), LATEST, True),
        (pair(), 1_700_000_000_000, True),
    ],
    ids=["new", "empty", "written to", "from the end", "from a moment"],
)
def test_auto_keeps_the_offsets_where_it_can(found: TopicPair, start: int, is_mapped: bool) -> None:
    """Before the first byte, and by what both plan and run see; with a reason where it cannot."""
    plan = planned(found, AUTO, start=start)
    assert plan.mode is (TopicMode.MAPPED if is_mapped else TopicMode.IDENTITY)
    assert any("offsets are mapped" in note.message for note in plan.notes) is is_mapped


TIERED = topic({"remote.storage.enable": "true"})
LEFT = (LeftInTier(0, 5, 12),)


def test_what_a_remote_tier_holds_can_be_left_there() -> None:
    """With mapped offsets a topic with a tier begins at its local log start, and says what it leaves; others do not
    know the difference, nor do topics that were begun.
    """
    tiered = replace(pair(target={}), source=TIERED)
    plan = planned(tiered, MAPPED, remote=RemotePolicy.LEAVE, local_start=12)
    assert [(lane.is_mapped, lane.start) for lane in plan.lanes] == [(True, EARLIEST_LOCAL)]
    assert [note.message for note in plan.notes if "are left there" in note.message] == [
        "7 offsets in the remote tier of the source alone are left there: copying begins at the local log start "
        "(topics.remote: leave); logs on disks start with partition 0 at 12"
    ]
    begun = replace(tiered, cursors={0: Cursor(12, 0, 0)})
    plan = planned(begun, MAPPED, remote=RemotePolicy.LEAVE, local_start=15, recorded=True)
    assert not any("are left there" in note.message for note in plan.notes)
    for offsets in (SAME, AUTO, MAPPED):
        (lane,) = planned(pair(target={}), offsets, remote=RemotePolicy.LEAVE).lanes
        assert (lane.is_mapped, lane.start, lane.begin_offset) == (offsets is MAPPED, EARLIEST, -1)


@pytest.mark.parametrize("offsets", [SAME, AUTO, MAPPED])
def test_what_has_parted_is_mapped_whatever_is_asked_for(offsets: OffsetPolicy) -> None:
    """As long as the topic at the target is the one that went on: another one gets what is asked for."""
    found = pair(target={}, end=20)
    assert found.target is not None
    ids = TopicIds(source_topic=SOURCE_ORDERS, source=found.source.topic_id, target=found.target.topic_id)
    parted = {ORDERS: replace(ids, is_mapped=True, parted=Parted("kate", 1_700_000_000_000))}
    link = replace(LINK, topics=replace(LINK.topics, offsets=offsets))
    seen = replace(observed(found), link=link)
    (plan,) = plan_link(seen, Claims(), with_parted(seen, {ORDERS: replace(ids, left=LEFT)}, parted)).topics
    assert (plan.mode, plan.left, plan.parted) == (TopicMode.MAPPED, LEFT, parted[ORDERS].parted)
    assert any("by kate" in note.message and "--way rebuild" in note.hint for note in plan.notes)
    other = {ORDERS: replace(parted[ORDERS], target=uuid.uuid4())}
    assert with_parted(seen, {}, other) == {}


@pytest.mark.parametrize("offsets", [SAME, AUTO])
def test_the_same_offsets_begin_behind_what_is_left_in_the_tier(offsets: OffsetPolicy) -> None:
    """A new topic begins at its local log start, and what was written down of that holds from then on, though the
    source moves more into its tier, or the policy is another; one that was begun before begins nowhere else.
    """
    tiered = replace(pair(target={}), source=TIERED)
    plan = planned(tiered, offsets, remote=RemotePolicy.LEAVE, local_start=12)
    assert (plan.mode, plan.left, plan.lag_records, plan.prefix_offsets) == (TopicMode.IDENTITY, LEFT, 8, 12)
    assert [lane.begin_offset for lane in plan.lanes] == [12]
    assert [note.message[:10] for note in plan.notes] == ["7 offsets "]
    for remote in RemotePolicy:
        plan = planned(tiered, offsets, recorded=False, left=LEFT, remote=remote, local_start=18)
        assert (plan.left, [lane.begin_offset for lane in plan.lanes], plan.lag_records) == (LEFT, [12], 8)
    written = replace(pair(target={}, end=6), source=TIERED)
    plan = planned(written, offsets, recorded=False, remote=RemotePolicy.LEAVE, local_start=12)
    assert (plan.left, [lane.begin_offset for lane in plan.lanes], plan.lag_records) == ((), [-1], 14)
    assert [note.message[:18] for note in plan.notes] == ["6 offsets to copy "]
    plan = planned(tiered, offsets, local_start=12)
    assert (plan.left, [lane.begin_offset for lane in plan.lanes]) == ((), [-1])


@pytest.mark.parametrize("offsets", [SAME, AUTO])
def test_nothing_begins_while_its_local_log_start_is_not_told(offsets: OffsetPolicy) -> None:
    """Neither with one beginning nor with mapped offsets: the topic waits for the broker that knows."""
    tiered = replace(pair(target={}), source=TIERED)
    plan = planned(tiered, offsets, remote=RemotePolicy.LEAVE)
    assert (plan.action, plan.lanes, plan.states) == (Action.REFUSE, (), (LaneState.SOURCE_UNAVAILABLE,))


@pytest.mark.parametrize("is_mapped", [True, False])
def test_a_topic_stays_as_it_was_begun(is_mapped: bool) -> None:
    """Auto follows the ledger, whatever the target looks like by now; the other way is refused, with a way out."""
    found = pair(target={}, end=0 if is_mapped else 9)
    assert planned(found, AUTO, recorded=is_mapped).mode is (TopicMode.MAPPED if is_mapped else TopicMode.IDENTITY)
    assert not planned(found, MAPPED if is_mapped else SAME, recorded=is_mapped).reasons
    (reason,) = planned(found, SAME if is_mapped else MAPPED, recorded=is_mapped).reasons
    assert reason.message.startswith("the topic was begun with")
    assert "topics.offsets" in reason.hint


@pytest.mark.parametrize(
    ("silent", "is_compacted", "state"),
    [
        ("target", False, LaneState.TARGET_UNAVAILABLE),
        ("source", True, LaneState.SOURCE_UNAVAILABLE),
        ("source", False, None),
    ],
)
def test_auto_waits_for_what_may_speak_against_the_same_offsets(
    silent: str, is_compacted: bool, state: LaneState | None
) -> None:
    """What a topic is begun with it keeps: nothing is decided while a partition that may be written to is silent."""
    own = {"cleanup.policy": "compact"} if is_compacted else {}
    found = TopicPair(
        name=ORDERS,
        source=topic(own, partitions=2),
        target=topic(own, partitions=2),
        source_ranges={p: LogRange(0, 20, 20) for p in ((0,) if silent == "source" else (0, 1))},
        target_ranges={p: LogRange(0, 0, 0) for p in ((0,) if silent == "target" else (0, 1))},
    )
    plan = planned(found, AUTO)
    assert (plan.reasons == (), bool(plan.lanes)) == (state is None, state is None)
    if state is not None:
        assert plan.state is state
        assert "partition 1 does not answer" in plan.reasons[0].message
    for begun in (SAME, MAPPED):
        assert len(planned(found, begun).lanes) == len(planned(found, AUTO, recorded=begun is MAPPED).lanes) == 2


def test_auto_does_not_wait_where_it_knows_enough() -> None:
    """One partition that holds data is reason enough to map offsets, whoever else is silent."""
    found = pair(target={}, end=4)
    found = replace(found, source=topic(partitions=2), target=topic(partitions=2))
    assert planned(found, AUTO).mode is TopicMode.MAPPED


def test_auto_needs_ids_to_know_a_topic_again() -> None:
    """Without them the ledger's word on a topic is not taken, so data of ours cannot be told from that of others."""
    found = pair(target={}, end=9)
    assert found.target is not None
    found = replace(found, target=replace(found.target, topic_id=NO_TOPIC_ID))
    (reason,) = planned(found, AUTO).reasons
    assert (planned(found, AUTO).mode, "no ids" in reason.message) == (TopicMode.REFUSED, True)
    assert planned(found, MAPPED).mode is TopicMode.MAPPED
    assert planned(replace(found, target_ranges={0: LogRange(0, 0, 0)}), AUTO).mode is TopicMode.IDENTITY


@pytest.mark.parametrize("change", ["recreated", "renamed"])
def test_nobody_is_told_to_delete_what_others_write_to(change: str) -> None:
    """A mapped topic whose source is another one is to be copied under another name."""
    found = pair(target={}, end=9)
    assert found.target is not None
    name = SourceTopic("before") if change == "renamed" else SOURCE_ORDERS
    ids = TopicIds(source_topic=name, source=uuid.uuid4(), target=found.target.topic_id, is_mapped=True)
    seen = replace(observed(found), link=replace(LINK, topics=replace(LINK.topics, offsets=MAPPED)))
    (plan,) = plan_link(seen, Claims(), {ORDERS: ids}).topics
    assert plan.state is LaneState.TOPIC_RECREATED
    assert "topics.naming" in plan.reasons[0].hint
    assert "delet" not in plan.reasons[0].hint


def test_mapped_lanes_know_where_to_begin() -> None:
    """The lane carries the start; what is to be copied follows from it, or from how far it got."""
    found = pair(target={}, end=7)
    plan = planned(found, MAPPED, start=LATEST)
    assert ([lane.start for lane in plan.lanes], plan.lag_records, plan.has_changes) == ([LATEST], 0, False)
    assert planned(found, MAPPED).lag_records == 15
    assert planned(replace(found, cursors={0: Cursor(18, 3, 7)}), MAPPED, start=LATEST).lag_records == 2
    unknown = planned(found, MAPPED, start=1_700_000_000_000)
    assert ([p.lag_records for p in unknown.partitions], unknown.lag_records) == ([-1], 0)


def test_what_came_after_the_first_look_begins_where_it_begins() -> None:
    """Partitions that came since their topic was begun, and topics that came since the link looked for them, with
    start: latest. What it did not look for, or has seen and not begun, begins at its end, and so does what an older
    release has begun.
    """
    found = replace(pair(target={}, end=7), source=topic(partitions=3), target=topic({}, partitions=3))
    assert found.target is not None
    ids = TopicIds(source_topic=SOURCE_ORDERS, source=found.source.topic_id, target=found.target.topic_id)
    settings = replace(LINK.topics, offsets=MAPPED, start=LATEST)
    seen = replace(observed(found), link=replace(LINK, topics=settings))
    look = FirstLook.of(settings)

    def starts(recorded: TopicIds | None, look: FirstLook | None = None) -> list[int]:
        known = {} if recorded is None else {ORDERS: replace(recorded, is_mapped=True)}
        (plan,) = plan_link(seen, Claims(), known, look).topics
        lanes = [lane.start for lane in plan.lanes]
        assert lanes == [LATEST] * plan.first_partitions + [EARLIEST] * (3 - plan.first_partitions)
        return lanes

    assert starts(None) == [LATEST] * 3
    assert starts(ids, look) == [LATEST] * 3
    assert starts(replace(ids, first_partitions=1), look) == [LATEST, EARLIEST, EARLIEST]
    assert starts(None, look) == [EARLIEST] * 3
    assert starts(None, look.with_waiting([SOURCE_ORDERS])) == [LATEST] * 3
    assert starts(None, replace(look, include=(TopicPattern.parse("others*"),))) == [LATEST] * 3
    (later,) = plan_link(seen, Claims(), {}, look).topics
    assert later.partitions[0].lag_records == 15


def test_a_mapped_topic_needs_no_room_before_its_first_record() -> None:
    """No prefix is filled and no topic is created for filling, however high the source begins."""
    plan = planned(pair(), MAPPED)
    assert (plan.action, plan.prefix_offsets) == (Action.CREATE, 0)
    assert plan.creation is not None
    assert "retention.ms" not in plan.creation.configs


def test_what_the_target_would_lose_is_refused_all_the_same() -> None:
    """Timestamps and records that its configuration takes; that its brokers compress anew is only said."""
    assert planned(pair(target={"message.timestamp.type": "LogAppendTime"}), MAPPED).mode is TopicMode.REFUSED
    assert planned(pair(target={"cleanup.policy": "compact"}), MAPPED).mode is TopicMode.REFUSED
    plan = planned(pair(target={"compression.type": "zstd"}), MAPPED)
    assert (plan.mode, plan.notes[0].message.split(",")[0]) == (
        TopicMode.MAPPED,
        "the target topic has compression.type=zstd",
    )


@pytest.mark.parametrize(
    ("state", "is_refused"), [(LaneState.NOT_AUTHORIZED, True), (LaneState.TARGET_UNAVAILABLE, False)]
)
def test_what_is_seen_of_partitions_does_not_change_the_offsets(state: LaneState, is_refused: bool) -> None:
    """A right that is missing is a reason to refuse a partition, and none to map it."""
    outlook = {0: Outlook(state=state, problem=Problem("no", "do"))}
    for offsets, mode in ((AUTO, TopicMode.IDENTITY), (MAPPED, TopicMode.MAPPED)):
        plan = planned(pair(target={}, outlooks=outlook), offsets)
        (decision,) = plan.partitions
        assert plan.mode is (TopicMode.REFUSED if is_refused else mode)
        assert (decision.state, decision.refusal is not None) == (state, is_refused)
        assert (decision.unexamined is None) is is_refused


@pytest.mark.parametrize(
    ("offsets", "recorded", "says"),
    [
        (SAME, None, "cannot keep the source's offsets"),
        (AUTO, False, "was begun with the source's offsets, and its records are now to be changed"),
    ],
)
def test_records_that_are_changed_never_keep_their_offsets(
    offsets: OffsetPolicy, recorded: bool | None, says: str
) -> None:
    """Records that are left out leave no gap at the target."""
    plan = planned(pair(target={}), offsets, recorded=recorded, transforms=(Transform(where="true"),))

    assert plan.mode is TopicMode.REFUSED
    assert says in plan.reasons[0].message
    assert plan.reasons[0].hint


def test_a_topic_that_a_transform_leaves_alone_keeps_its_offsets() -> None:
    """The others of the link do not decide for it."""
    others = Transform(topics=(TopicPattern.parse("others*"),), where="true")

    assert planned(pair(target={}), AUTO, transforms=(others,)).mode is TopicMode.IDENTITY


def test_another_transform_begins_where_the_partition_is() -> None:
    """What was copied before stays as it is; the ledger has how it was made."""
    function = Transform(python=RecordFunction("rules", "clean"))
    found = pair(target={}, end=9, cursors={0: Cursor(12, 9, 9, transform="former")})

    plan = planned(found, MAPPED, recorded=True, transforms=(function,))

    assert [(each.partition, each.source_offset, each.former) for each in plan.transform_begins] == [(0, 12, "former")]
    assert {(each.transform, each.on_error) for each in plan.lanes} == {(function.digest, function.on_error)}
