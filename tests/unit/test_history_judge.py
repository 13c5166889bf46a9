"""The judge of the soak reads a history rightly: ends, recoveries, states, groups and gaps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from soak.faults import FAULTS
from soak.history import Event
from soak.judge.causes import i16_gap_honesty, i17_incarnation
from soak.judge.dump import batches, i10_replicas_agree
from soak.judge.evidence import NO_LOG, Case, Lane, Log, Seen, Violation, paired
from soak.judge.health import i20_no_secret_leak, i21_no_bug
from soak.judge.links import i22_link_truth
from soak.judge.positions import i14_no_overshoot, i15_no_undershoot
from soak.judge.progress import (
    i7_no_early_read,
    i8_no_torn_view,
    i8_torn_views,
    i10_prefix_stability,
    i21_liveness,
    i25_independence,
)
from soak.judge.states import i22_monitoring_truth
from soak.judge.timeline import Machine, Sufferings, Timeline

LANE = Lane(topic="t", partition=0, source=NO_LOG, target=NO_LOG)


def ends(at: float, side: str, high: int, *, stable: int | None = None, load: float = 0.0, start: int = 0) -> Event:
    """A look at the only partition, which took a tenth of a second."""
    changed = {"t:0": [start, high if stable is None else stable, high]}
    told = {"side": side, "begun": at - 0.1, "changed": changed, "unseen": [], "load": load, "processors": 2}
    return {"kind": "ends", "at": at, **told}


def flow(until: int, *, copied_until: int | None = None, load: float = 0.0) -> list[Event]:
    """The source grows by 10 records a second; the target follows a second later, until it stops."""
    found = []
    for at in range(until):
        behind = at if copied_until is None else min(at, copied_until)
        found.append(ends(at, "target", 10 * max(behind - 1, 0), load=load))
        found.append(ends(at + 0.5, "source", 10 * at, load=load))
    return found


def status(at: float, state: str = "ACTIVE", **changed: Any) -> Event:
    """What was shown of the only partition."""
    row = {
        "topic": "t",
        "partition": 0,
        "state": state,
        "state_age": 0.0,
        "source_end": None,
        "source_age": 0.0,
        "target_end": None,
        "target_age": 0.0,
        "lag": None,
        "gaps": [],
        "problem": None,
        **changed,
    }
    topics = [{"topic": "t", "state": state, "problem": None}]
    return {"kind": "status", "at": at, "begun": at - 0.2, "partitions": [row], "topics": topics}


def suffered(what: str, at: float = 0.0) -> Event:
    return {"kind": "suffered", "at": at, "topic": "t", "what": what}


def case(*events: Event, lane: Lane = LANE) -> Case:
    return Case(events=tuple(sorted(events, key=lambda event: event["at"])), lanes=(lane,))


def liveness(*events: Event) -> list[Violation]:
    found = case(*events)
    return list(i21_liveness(found, Timeline(found.events), Sufferings(found.events)))


def truth(*events: Event) -> list[str]:
    """What was not true of what was shown, in the judge's words up to the first colon."""
    found = case(*events)
    violations = i22_monitoring_truth(found, Timeline(found.events), Sufferings(found.events))
    return [violation.message.partition(":")[0] for violation in violations]


HEALED = {"kind": "bout", "at": 20.0, "number": 1, "phase": "healed"}


def test_a_partition_that_did_not_answer_has_no_look_then() -> None:
    """Ends that did not change are looked at all the same; those that did not answer are not known at that time."""
    silent = {**ends(3, "target", 0), "changed": {}, "unseen": ["t:0"]}
    again = {**ends(4, "target", 0), "changed": {}}
    timeline = Timeline([ends(1, "target", 5), {**ends(2, "target", 0), "changed": {}}, silent, again])
    assert [(look.ended, look.high) for look in timeline.looks("target", ("t", 0))] == [(1, 5), (2, 5), (4, 5)]
    assert timeline.keys("source") == set()


def test_looks_are_found_by_their_time() -> None:
    """The last look before a moment had ended then, the first one after it had not begun."""
    timeline = Timeline([ends(1, "source", 5), ends(2, "source", 9)])
    before, after = timeline.before("source", ("t", 0), 1.95), timeline.after("source", ("t", 0), 0.95)
    assert before is not None
    assert before.high == 5
    assert after is not None
    assert after.high == 9
    assert timeline.before("source", ("t", 0), 0.9) is None
    assert timeline.after("source", ("t", 0), 2.0) is None


@pytest.mark.parametrize("frozen", ["source", "target"])
def test_a_leader_that_was_resumed_may_tell_old_ends(frozen: str) -> None:
    """What its side answers from then on for two seconds is no look; before, and at the other side, it is one."""
    freeze = {"kind": "fault", "fault": FAULTS[f"{frozen}-leader-frozen"].name}
    told = [{**freeze, "at": 2.0, "phase": "begin"}, {**freeze, "at": 5.45, "phase": "undo"}]
    looks = [ends(at, side, int(10 * at)) for side in ("source", "target") for at in (4.0, 5.5, 7.0, 9.0)]
    timeline = Timeline(case(*looks, *told).events)
    for side in ("source", "target"):
        found = [look.high for look in timeline.looks(side, ("t", 0))]
        assert found == ([40, 90] if side == frozen else [40, 55, 70, 90])


def test_a_busy_machine_has_longer() -> None:
    """Limits grow with the load per processor around a moment, and never fall below those of an idle machine."""
    machine = Machine([ends(10, "source", 0, load=8.0), ends(500, "source", 0, load=0.5)])
    assert machine.stretch(0, 20) == 4.0
    assert machine.stretch(400, 600) == 1.0


def test_a_partition_that_never_goes_on_is_found() -> None:
    """Within a minute after all is whole again a lagging partition moves; on a busy machine it may take longer."""
    assert liveness(*flow(100), HEALED) == []
    assert len(liveness(*flow(100, copied_until=15), HEALED)) == 1
    assert liveness(*flow(70, copied_until=15), HEALED) == [], "nobody looked for a minute"
    assert liveness(*flow(100, copied_until=15, load=4.0), HEALED) == []
    assert len(liveness(*flow(170, copied_until=15, load=4.0), HEALED)) == 1
    assert liveness(*flow(100, copied_until=15), HEALED, suffered("source truncated")) == []


def test_a_target_that_is_early_or_shrinks_is_found() -> None:
    """The target is never ahead of what is stable at the source, and never ends before where it ended."""
    early = case(*flow(20), ends(5.2, "target", 70), ends(5.3, "target", 40))
    timeline, sufferings = Timeline(early.events), Sufferings(early.events)
    assert len(list(i7_no_early_read(early, timeline, sufferings))) == 1
    assert len(list(i10_prefix_stability(early, timeline, sufferings))) == 1
    fine = case(*flow(20))
    timeline = Timeline(fine.events)
    assert list(i7_no_early_read(fine, timeline, sufferings)) == []
    assert list(i10_prefix_stability(fine, timeline, sufferings)) == []
    reread = case({"kind": "reread", "at": 9.0, "topic": "t", "partition": 0, "count": 1, "offsets": [3]})
    assert len(list(i10_prefix_stability(reread, timeline, sufferings))) == 1


def test_where_transactions_are_whole_they_are_there_before_they_end_and_never_seen_in_part() -> None:
    """What is open may be at the target, as soon as the source has it. That a part of one was seen is a violation, but
    where the right to end them was taken away.
    """
    txn = {"kind": "txn", "at": 0.0, "topic": "t", "ended": "committed", "spans": [[0, 10, 20]]}
    taken = {"kind": "fault", "at": 1.0, "phase": "begin", "number": 1, "fault": "target-right-taken", "row": 34}
    whole = replace(LANE, is_whole=True)

    def early(stable: int, high: int) -> int:
        told = case(ends(1.0, "target", high, stable=stable), ends(2.0, "source", 21, stable=10), lane=whole)
        return len(list(i7_no_early_read(told, Timeline(told.events), Sufferings(told.events))))

    assert [early(10, 21), early(11, 21), early(10, 22)] == [0, 1, 1]
    for more, count in (((), 1), ((taken,), 0)):
        seen = case(ends(1.0, "target", 21, stable=15), txn, *more, lane=whole)
        assert len(list(i8_no_torn_view(seen, Timeline(seen.events)))) == count


def test_torn_views_are_counted_once_for_each_transaction() -> None:
    """A transaction of which a part was visible counts, unless another one begins where the view ended."""

    def transaction(first: int, last: int, ended: str = "committed") -> Event:
        return {"kind": "txn", "at": 0.0, "topic": "t", "ended": ended, "spans": [[0, first, last]]}

    looks = [ends(1, "target", 15), ends(2, "target", 16), ends(3, "target", 40)]
    for others, count in (([], 1), ([transaction(16, 18)], 1), ([transaction(15, 18), transaction(16, 20)], 0)):
        torn = case(*looks, transaction(10, 20), *others)
        assert i8_torn_views(torn, Timeline(torn.events)) == count, others
    whole = case(ends(1, "target", 10), ends(2, "target", 21), transaction(10, 20), transaction(30, 35, "aborted"))
    assert i8_torn_views(whole, Timeline(whole.events)) == 0


def test_ends_that_were_shown_lie_between_what_was_looked_at() -> None:
    """An end that is higher than it was later, or lower than it was before, is not true; its age counts."""
    assert truth(*flow(30), status(10, source_end=95, target_end=85, lag=10)) == []
    assert truth(*flow(30), status(10, source_end=500)) == ["source end"]
    assert truth(*flow(30), status(10, target_end=40)) == ["target end"]
    assert truth(*flow(30), status(10, target_end=40, target_age=6.0)) == []
    assert truth(*flow(30), status(10, source_end=95, target_end=85, lag=11)) == ["lag"]
    assert truth(*flow(30), status(10, source_end=95, target_end=85, lag=3)) == ["lag"]


def test_only_what_copies_is_active() -> None:
    """ACTIVE is a lie for what has stood still too long with something to copy, or when no mirror runs."""
    assert truth(*flow(100), status(90)) == []
    assert truth(*flow(100, copied_until=30), status(90)) == ["ACTIVE and nothing copied"]
    assert truth(*flow(100, copied_until=30), status(90, "STARTING")) == []
    assert truth(*flow(100, copied_until=30, load=6.0), status(90)) == [], "forty seconds are two minutes then"
    gone = [{"kind": "mirror", "did": did, "at": at} for did, at in (("started", 0), ("ended", 20), ("started", 60))]
    assert truth(*flow(100), *gone, status(50)) == ["ACTIVE without a mirror"]
    assert truth(*flow(100), *gone, status(30)) == [], "nobody can know that so soon"


@pytest.mark.parametrize(
    ("what", "state", "is_true"),
    [
        ("source truncated", "DIVERGED", True),
        ("source truncated", "DATA_GAP", False),
        ("source lost records", "DATA_GAP", True),
        ("target recreated", "TOPIC_RECREATED", True),
        ("nothing", "FAILED", False),
    ],
)
def test_a_state_that_lasts_needs_its_cause(what: str, state: str, is_true: bool) -> None:
    """States that last are told only where something of their kind was done to the topic, and not before it."""
    alarms = truth(*flow(30), suffered(what), status(10, state))
    assert alarms == ([] if is_true else ["false alarm"] * len(alarms))
    assert bool(alarms) is not is_true
    assert "false alarm" in truth(*flow(30), suffered(what, at=20.0), status(10, state))


@pytest.mark.parametrize("state", ["SOURCE_UNAVAILABLE", "TARGET_UNAVAILABLE", "NOT_AUTHORIZED", "BLOCKED", "STOPPED"])
def test_a_state_that_passes_has_passed_when_all_is_whole(state: str) -> None:
    """A minute after everything was whole again, of what is copied, it is a lie; sooner, in a bout or of a lag not."""
    began = {"kind": "bout", "at": 70.0, "number": 2, "phase": "begin"}
    lie = [f"{state} though all was whole and copied"]
    assert truth(*flow(100), HEALED, status(90, state)) == lie * 2, "of the partition, and of its topic"
    assert truth(*flow(100), HEALED, status(70, state)) == []
    assert truth(*flow(100), HEALED, began, status(90, state)) == []
    assert truth(*flow(100), status(90, state)) == [], "it is still beginning"
    assert truth(*flow(100, copied_until=60), HEALED, status(90, state)) == []
    assert truth(*flow(100), HEALED, status(90, state, state_age=30.0))[1:] == [], "as of then"
    assert truth(*flow(100), HEALED, suffered("foreign write"), status(90, state)) == []
    assert truth(*flow(100, load=4.0), HEALED, status(90, state)) == [], "a minute is two then"
    busy = flow(400, load=8.0)
    assert truth(*busy, HEALED, status(390, state)) == [], "it is short of processors"
    assert truth(*flow(100), HEALED, status(90, "STARTING")) == [], "leases hand lanes over all the time"
    started = {"kind": "mirror", "at": 50.0, "did": "started"}
    assert truth(*flow(100), HEALED, started, status(90, state)) == [], "it began a while ago only"
    cutover = {"kind": "phase", "at": 89.0, "name": "cutover"}
    assert truth(*flow(100), HEALED, cutover, status(90, state)) == [], "the source may be cut off for that"


@pytest.mark.parametrize("state", ["PAUSED", "HELD"])
def test_what_nobody_did_is_never_shown(state: str) -> None:
    """Faults pause topics, for a while; nobody else does, and nothing is held."""
    assert truth(*flow(100), status(10, state)) == ["nobody did that"] * 2
    spans = [
        {"kind": "paused", "topic": "t", "phase": phase, "at": at} for phase, at in (("begin", 5.0), ("end", 20.0))
    ]
    paused = [] if state == "PAUSED" else ["nobody did that"] * 2
    assert truth(*flow(100), *spans, status(10, state)) == paused
    assert truth(*flow(100), spans[0], status(90, state)) == paused, "it was never resumed"
    assert truth(*flow(100), *spans, status(90, state)) == ["nobody did that"] * 2
    assert truth(*flow(100), *spans, status(4, state)) == ["nobody did that"] * 2


def link(
    at: float, state: str = "ACTIVE", controller: str = "ALIVE", problem: str | None = None, **groups: str
) -> Event:
    """What was shown of the link itself, and of its groups."""
    told = [{"group": group, "standing": standing} for group, standing in groups.items()]
    return {**status(at), "state": state, "controller": controller, "problem": problem, "groups": told}


def link_truth(*events: Event) -> list[str]:
    """What was not true of the link and its groups, without the moments."""
    return [each.message.partition(" (told")[0].partition(":")[0] for each in i22_link_truth(case(*events))]


MIRROR = {"kind": "mirror", "at": 0.0, "did": "started"}


@pytest.mark.parametrize(
    ("state", "controller", "problem", "expected"),
    [
        ("ACTIVE", "ALIVE", None, []),
        ("UNAVAILABLE", "ALIVE", "no answer", ["not ACTIVE though all was whole"]),
        ("UNAVAILABLE", "UNKNOWN", None, ["not ACTIVE though all was whole"]),
        ("STOPPED", "SILENT", None, ["not ACTIVE though all was whole"]),
        ("STOPPED", "NONE", None, ["not ACTIVE though all was whole"]),
        ("PAUSED", "ALIVE", None, ["nobody did that"]),
        ("FAILED", "NONE", "a bug", ["nobody did that"]),
        ("STOPPED", "ALIVE", None, ["contradiction"]),
        ("STOPPED", "THROTTLED", None, ["contradiction"]),
        ("ACTIVE", "THROTTLED", None, ["THROTTLED without a quota"]),
        ("ACTIVE", "SILENT", None, ["contradiction"]),
        ("ACTIVE", "ALIVE", "no answer", ["contradiction"]),
        ("UNAVAILABLE", "ALIVE", None, ["contradiction"]),
    ],
)
def test_a_link_is_what_it_is_called(state: str, controller: str, problem: str | None, expected: list[str]) -> None:
    """When all is whole it is ACTIVE, with a controller and no problem; at any time its words agree."""
    assert link_truth(MIRROR, HEALED, link(90, state, controller, problem)) == expected
    early = [] if expected == ["not ACTIVE though all was whole"] else expected
    assert link_truth(MIRROR, HEALED, link(70, state, controller, problem)) == early


def test_a_controller_is_throttled_by_a_quota_alone() -> None:
    """Where the target had one it runs all the same; when all is whole again it is no more."""
    quota = [
        {"kind": "fault", "fault": "target-reads-starved", "phase": phase, "at": at}
        for phase, at in (("done", 20.0), ("undo", 30.0))
    ]
    assert link_truth(MIRROR, *quota, link(25, controller="THROTTLED")) == []
    assert link_truth(MIRROR, *quota, link(15, controller="THROTTLED")) == ["THROTTLED without a quota"]
    assert link_truth(MIRROR, *quota, HEALED, link(90, controller="THROTTLED")) == ["not ACTIVE though all was whole"]


def test_a_controller_is_alive_only_while_one_runs() -> None:
    """One that has ended or stands still is called so for some seconds more."""
    gone = [MIRROR, {**MIRROR, "did": "ended", "at": 20.0}, {**MIRROR, "at": 60.0}]
    assert link_truth(*gone, link(30)) == []
    assert link_truth(*gone, link(50)) == ["ALIVE without a controller"]
    assert link_truth(*gone, link(70)) == []
    rival = {**MIRROR, "did": "rival started", "at": 25.0}
    assert link_truth(*gone, rival, link(50)) == []
    frozen = [
        {"kind": "fault", "fault": "driver-frozen", "phase": p, "at": at} for p, at in (("done", 20.0), ("undo", 60.0))
    ]
    assert link_truth(MIRROR, *frozen, link(50)) == ["ALIVE without a controller"]
    assert link_truth(MIRROR, *frozen, link(50, "STOPPED", "SILENT")) == []
    assert link_truth(MIRROR, *frozen, link(70)) == []


def test_a_standing_of_a_group_needs_its_cause() -> None:
    """When all is whole nobody has touched a group; in the end it is in step, and is called so, or it is not."""
    still, done = commit(1, 5), positions(80, 5, here=5)
    assert link_truth(still, MIRROR, HEALED, done, link(90, g="IN_STEP", other="UNSUPPORTED")) == []
    for standing in ("MOVED_AT_TARGET", "UNAVAILABLE", "ACTIVE_AT_TARGET", "GONE_AT_SOURCE"):
        assert link_truth(still, MIRROR, HEALED, link(90, g=standing)) == [f"{standing} though all was whole"]
        assert link_truth(still, MIRROR, HEALED, link(70, g=standing)) == []
    untrue = ["DUE though it stands where it stands at the source"]
    assert link_truth(still, MIRROR, HEALED, done, link(90, g="DUE")) == untrue
    assert link_truth(still, MIRROR, HEALED, done, link(85, g="DUE"), link(90, g="IN_STEP")) == [], (
        "it was not said yet"
    )
    assert link_truth(still, MIRROR, HEALED, positions(80, 4, here=5), link(90, g="IN_STEP")) == [
        "IN_STEP though it does not stand where it stands at the source"
    ]
    touched = {"kind": "touched", "at": 0.0, "group": "g"}
    assert link_truth(touched, still, MIRROR, HEALED, done, link(90, g="ACTIVE_AT_TARGET")) == []
    assert link_truth(still, MIRROR, HEALED, done, commit(82, 9), link(90, g="DUE")) == [], "it was moved since"


def commit(at: float, offset: int) -> Event:
    return {"kind": "commit", "at": at, "phase": "begin", "group": "g", "topic": "t", "partition": 0, "offset": offset}


def positions(at: float, there: int, *, here: int | None = None, end: int = 1000) -> Event:
    """Where the only group stood; with `here` it is the last look."""
    source = {} if here is None else {"g": {"t:0": here}}
    told = {"target": {"g": {"t:0": there}}, "source": source, "target_ends": {"t:0": end}}
    return {"kind": "positions", "at": at, "final": here is not None, **told}


def groups(*events: Event) -> set[str]:
    found = case(*events)
    return {each.invariant.split()[0] for rule in (i14_no_overshoot, i15_no_undershoot) for each in rule(found)}


def test_groups_stand_where_commits_put_them() -> None:
    """A group is never beyond a commit that was begun, nor the log, and in the end where the source has it."""
    assert groups(commit(1, 5), positions(2, 5), positions(9, 5, here=5)) == set()
    assert groups(commit(1, 5), positions(2, 6)) == {"I14"}
    assert groups(positions(2, 5), commit(3, 5)) == {"I14"}, "committed later"
    assert groups(commit(1, 9), positions(9, 4, here=9)) == {"I15"}
    assert groups(commit(1, 9), positions(2, 9, end=8)) == {"I15"}
    touched = {"kind": "touched", "at": 0.0, "group": "g"}
    assert groups(touched, commit(1, 9), positions(2, 12), positions(9, 4, here=9)) == set()
    kept = {"kind": "kept", "at": 3.0, "group": "g", "expected": 4, "found": 7}
    assert groups(kept) == {"I15"}


def test_groups_of_mapped_lanes_stand_before_the_same_record() -> None:
    """Positions are the same if the same records are behind them, whatever strangers or aborted records lie between."""
    lane = mapped_lane()

    def found(*events: Event) -> set[str]:
        told = case(*events, lane=lane)
        return {each.invariant.split()[0] for rule in (i14_no_overshoot, i15_no_undershoot) for each in rule(told)}

    # The record at 4 of the source is at 14 of the target, the next one at 16.
    assert found(commit(1, 4), positions(2, 14), positions(9, 14, here=4)) == set()
    assert found(commit(1, 4), positions(9, 13, here=4)) == set(), "only a stranger's record lies between"
    assert found(commit(1, 4), positions(2, 15)) == {"I14"}
    assert found(commit(1, 4), positions(9, 12, here=4)) == {"I15"}
    assert found(commit(1, 10), positions(9, 26, here=10)) == set(), "both have read everything"
    assert found(commit(1, 4), positions(2, 14, end=13)) == {"I15"}, "behind the end of the log"


def test_a_mapped_target_is_followed_in_offsets_of_its_source() -> None:
    """What a look saw of the target tells how far it was, in which nothing may be early, and what was shown is held
    against.
    """
    lane = mapped_lane()

    def early(stable: int, high: int) -> list[Violation]:
        told = case(ends(1, "target", high), ends(2, "source", 10, stable=stable), lane=lane)
        return list(i7_no_early_read(told, Timeline(told.events, told.lanes), Sufferings(told.events)))

    assert [early(5, 15), early(5, 16)] == [[], []]
    assert len(early(5, 17)) == 1, "the record at 5, which is not stable"
    looks = [ends(1, "target", 15), ends(2, "source", 10), ends(20, "target", 15)]
    for copied_end, expected in ((5, []), (6, ["copied end"])):
        told = case(*looks, status(10, source_end=10, copied_end=copied_end, lag=10 - copied_end), lane=lane)
        shown = i22_monitoring_truth(told, Timeline(told.events, told.lanes), Sufferings(told.events))
        assert [violation.message.partition(":")[0] for violation in shown] == expected


def mapped_lane() -> Lane:
    """Ten records that are at the target from 6 on, a stranger's behind each."""
    source = held(range(10))
    records = [
        each
        for record in source.records
        for each in (
            record._replace(offset=6 + 2 * record.offset),
            record._replace(offset=7 + 2 * record.offset, id="x"),
        )
    ]
    target = replace(held(range(6, 26)), records=tuple(records))
    found = replace(LANE, source=source, target=target, keeps_offsets=False)
    return replace(found, pairing=paired(source, target, {}))


def held(offsets: range, suffix: str = "") -> Log:
    """A log of records with these offsets."""
    records = tuple(
        Seen(offset=at, id=f"w{suffix}.0.{at}", content=b"", key=b"", is_null=False, is_sound=True) for at in offsets
    )
    return Log(start=offsets.start, stable=offsets.stop, high=offsets.stop, records=records, visible=frozenset(offsets))


def causes(lane: Lane, *events: Event) -> set[str]:
    found = case(*events, lane=lane)
    rules = (i16_gap_honesty, i17_incarnation)
    return {each.invariant.split()[0] for rule in rules for each in rule(found, Sufferings(found.events))}


def test_gaps_are_told_as_what_they_are() -> None:
    """What the source deleted before it was copied is told, as a gap or as a state; what is told is missing."""
    lost = replace(
        LANE, source=held(range(50, 80)), target=held(range(30)), acked={at: f"w.0.{at}" for at in range(80)}
    )
    done = suffered("source lost records")
    assert causes(lost, done, status(9, "DATA_GAP")) == set()
    assert causes(lost, done, status(9, "ACTIVE")) == {"I16"}
    target = held(range(80))
    continued = replace(lost, target=replace(target, records=(*target.records[:30], *target.records[50:])))
    assert causes(replace(continued, gaps=((30, 50),)), done, status(9)) == set()
    assert causes(replace(continued, gaps=((30, 51),)), done, status(9)) == {"I16"}, "one of them is there"
    assert causes(replace(continued, gaps=((30, 40),)), done, status(9)) == {"I16"}, "ten were not told"
    assert causes(replace(lost, target=held(range(80)), gaps=((90, 95),)), done, status(9)) == {"I16"}


def test_lives_of_topics_are_not_mixed() -> None:
    """Records of a topic's second life are nowhere, and that it began anew is told."""
    done = suffered("source recreated")
    first = replace(LANE, source=held(range(9), "-again"), target=held(range(20)))
    assert causes(first, done, status(9, "TOPIC_RECREATED")) == set()
    assert causes(first, done, status(9)) == {"I17"}
    mixed = replace(first, target=held(range(20), "-again"))
    assert causes(mixed, done, status(9, "TOPIC_RECREATED")) == {"I17"}


def test_only_a_new_run_copies_into_a_target_that_replaced_the_first() -> None:
    """Who was running when it went stops; who starts later begins anew, with the source's records."""
    done = suffered("target recreated", at=3.0)
    copied = replace(LANE, source=held(range(9)), target=held(range(5)))
    assert causes(copied, done, status(9, "TOPIC_RECREATED")) == {"I17"}
    started = {"kind": "mirror", "did": "started", "at": 2.0}
    assert causes(copied, started, done, status(9)) == {"I17"}, "that one was running"
    again = {**started, "at": 4.0}
    assert causes(copied, done, again, status(9)) == set()
    others = replace(copied, target=held(range(5), "-other"))
    assert causes(others, done, again, status(9)) == {"I17"}


DUMPED = """Dumping /data/t-0/00000000000000000000.log
baseOffset: 0 lastOffset: 4 count: 5 baseSequence: 0 isTransactional: false isControl: false crc: 11 isvalid: true
baseOffset: 5 lastOffset: 9 count: 5 baseSequence: 5 isTransactional: false isControl: false crc: 12 isvalid: true
"""


def test_replicas_that_differ_are_found() -> None:
    """Brokers hold the same batches where they hold the same offsets; a hole, damage or other bytes are found."""
    whole = batches(DUMPED)
    assert [batch.base for batch in whole["t", 0]] == [0, 5]
    assert list(i10_replicas_agree({1: whole, 2: whole}, [LANE])) == []
    shorter = batches("".join(DUMPED.splitlines(keepends=True)[:2]))
    assert list(i10_replicas_agree({1: whole, 2: shorter}, [LANE])) == [], "it may be behind"
    for old, new in (("crc: 12", "crc: 13"), ("baseOffset: 5", "baseOffset: 6"), ("isvalid: true", "isvalid: false")):
        assert list(i10_replicas_agree({1: whole, 2: batches(DUMPED.replace(old, new))}, [LANE])) != [], old


def test_bugs_and_leaks_are_found() -> None:
    """A process that ends with a bug, a traceback or a password in what it wrote is a violation each."""
    events = [
        {"kind": "mirror", "at": 1.0, "did": "ended", "code": 70},
        {"kind": "mirror", "at": 2.0, "did": "ended", "code": 10},
        {"kind": "traceback", "at": 3.0, "file": "run-1.log", "said": "KeyError: 3"},
        {"kind": "leak", "at": 3.0, "file": "run-1.log"},
    ]
    found = case(*events)
    assert [len(list(rule(found))) for rule in (i21_no_bug, i20_no_secret_leak)] == [2, 1]


def beside_frozen(end: float) -> list[Event]:
    """A broker that does not lead the partition stands still from 20 s on, and nothing else is done."""
    held = {"kind": "beside frozen", "others": [["t", 0]]}
    done = {"kind": "fault", "number": 0, "fault": "target-leader-frozen-at-start", "row": 53}
    return [
        {**done, "at": 20.0, "phase": "done"},
        {**held, "at": 20.0, "phase": "begin"},
        {**held, "at": end, "phase": "end"},
        {**done, "at": end, "phase": "undone"},
    ]


def independence(*events: Event) -> list[Violation]:
    found = case(*events)
    return list(i25_independence(found, Timeline(found.events), Sufferings(found.events)))


def test_what_a_frozen_broker_holds_up_that_it_does_not_lead_is_found() -> None:
    """A partition of another broker goes on within a minute; unless the machine is busy, the broker stood still for
    less than that, or something else was done as well.
    """
    assert independence(*flow(120), *beside_frozen(110)) == []
    assert len(independence(*flow(120, copied_until=15), *beside_frozen(110))) == 1
    assert independence(*flow(120, copied_until=15), *beside_frozen(60)) == []
    assert independence(*flow(120, copied_until=15, load=4.0), *beside_frozen(110)) == []
    other = {"kind": "fault", "at": 30.0, "number": 1, "fault": "target-quotas", "row": 32, "phase": "done"}
    assert independence(*flow(120, copied_until=15), *beside_frozen(110), other) == []


@pytest.mark.parametrize(
    ("state", "topic", "expected"),
    [
        ("IMPAIRED", "DIVERGED", []),
        ("ACTIVE", "DIVERGED", ["plainly ACTIVE"]),
        ("IMPAIRED", "ACTIVE", ["IMPAIRED"]),
        ("IMPAIRED", "BLOCKED", []),
        ("ACTIVE", "BLOCKED", []),
    ],
)
def test_a_link_with_a_topic_that_stopped_is_impaired(state: str, topic: str, expected: list[str]) -> None:
    """Nobody glances over a topic that has stopped for good, and none is made up."""
    shown = {**link(90, state), "topics": [{"topic": "t", "state": topic, "problem": None}]}
    assert link_truth(MIRROR, HEALED, shown) == expected
