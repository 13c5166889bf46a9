"""Whether the mirror was ever ahead of its source, and whether it went on after faults."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from soak.judge.evidence import Case, PartitionKey, Violation
from soak.judge.timeline import Machine, Sufferings, Timeline

RESUMED_WITHIN_S: Final = 60.0
_RIGHT_TAKEN: Final = "target-right-taken"
_BEHIND_S: Final = 5.0
"""So long after the mirror was killed every partition that is written to lags behind."""


def i7_no_early_read(case: Case, timeline: Timeline, sufferings: Sufferings) -> Iterator[Violation]:
    """Nothing is at the target before it is stable at the source, not even for a moment. Where transactions are whole
    nothing is seen before it is, and nothing is there before the source has it.
    """
    if not case.are_told:
        return
    lanes = case.by_partition
    for key in sorted(timeline.keys("target")):
        if sufferings.may_stop(key[0]):
            continue
        lane = lanes.get(key)
        for look in timeline.looks("target", key):
            source = timeline.after("source", key, look.ended)
            if source is None:
                continue
            high = look.high if lane is None else lane.copied_before(look.high)
            pairs = [(high, source.stable)]
            if lane is not None and lane.is_whole:
                pairs = [(look.stable, source.stable), (look.high, source.high)]
            if early := [pair for pair in pairs if pair[0] > pair[1]]:
                there, here = early[0]
                ends = f"at {look.ended:.1f} s the target ended at {there}, later the source at {here}"
                yield Violation(invariant="I7 early read", where=_named(key), message=ends)
                break


def i8_no_torn_view(case: Case, timeline: Timeline) -> Iterator[Violation]:
    """Where transactions are whole none that was committed was ever visible in part in a partition of the target.

    Who may not write their ends any more goes by records until the next lease.
    """
    if not case.are_told or any(event["fault"] == _RIGHT_TAKEN for event in case.of("fault")):
        return
    whole = {key for key, lane in case.by_partition.items() if lane.is_whole}
    for key, first, end in _torn(case, timeline):
        if key in whole:
            message = f"consumers got to {end}, within a transaction that begins at {first}"
            yield Violation(invariant="I8 torn view", where=_named(key), message=message)


def i8_torn_views(case: Case, timeline: Timeline) -> int:
    """How many committed transactions were once visible in part in a partition of the target.

    Where they are not whole nobody promises that this does not happen, so it is counted.
    """
    return sum(1 for _ in _torn(case, timeline))


def _torn(case: Case, timeline: Timeline) -> Iterator[tuple[PartitionKey, int, int]]:
    """Where a committed transaction was seen in part: its first offset, and how far consumers got.

    Where another transaction begins within one, consumers of the source see a part of it too, while the other one is
    open: those are left out. Where offsets differ, `timeline` tells the target's ends as the source's.
    """
    transactions, lanes = case.of("txn"), case.by_partition
    begins = set[tuple[PartitionKey, int]]()
    for event in transactions:
        for partition, first, _ in event["spans"]:
            key = (event["topic"], partition)
            pairing = lanes[key].pairing if key in lanes else None
            begins.add((key, first if pairing is None else pairing.wanted_from(first)))
    for event in transactions:
        if event["ended"] != "committed":
            continue
        for partition, first, last in event["spans"]:
            key = (event["topic"], partition)
            ends = {look.stable for look in timeline.looks("target", key) if first < look.stable <= last}
            if seen := [end for end in sorted(ends) if (key, end) not in begins]:
                yield key, first, seen[0]


def i10_prefix_stability(case: Case, timeline: Timeline, sufferings: Sufferings) -> Iterator[Violation]:
    """What a consumer has once read of the target is there later too, unchanged; the target never grows shorter."""
    for event in case.of("reread"):
        if not sufferings.of(event["topic"]) & {"target truncated", "target recreated"}:
            yield Violation(
                invariant="I10 prefix stability",
                where=f"{event['topic']}-{event['partition']}",
                message=f"{event['count']} records were read of the target once that are not there, or others, now",
                witnesses=tuple(event["offsets"]),
            )
    for key in sorted(timeline.keys("target")):
        if sufferings.of(key[0]) & {"target truncated", "target recreated"}:
            continue
        looks = timeline.looks("target", key)
        for earlier, later in pairwise(looks):
            if later.high < earlier.high:
                ends = f"the target ended at {earlier.high} and later, at {later.ended:.1f} s, at {later.high}"
                yield Violation(invariant="I10 prefix stability", where=_named(key), message=ends)
                break


def i21_liveness(case: Case, timeline: Timeline, sufferings: Sufferings) -> Iterator[Violation]:
    """Within a minute after everything is whole again every partition goes on that lags; a busy machine has longer."""
    is_told = case.are_told
    machine = Machine(case.events)
    for event in case.of("bout"):
        if event["phase"] != "healed":
            continue
        for key in sorted(timeline.keys("source")):
            if sufferings.may_stop(key[0]):
                continue
            begun, resumed = resumption(timeline, key, event["at"], is_told=is_told)
            looks = timeline.looks("source", key)
            until = looks[-1].ended if resumed is None else resumed
            bound_s = RESUMED_WITHIN_S * machine.stretch(event["at"], until)
            if begun is not None and until - begun > bound_s:
                waited = "never" if resumed is None else f"{resumed - begun:.0f} s later"
                yield Violation(
                    invariant="I21 liveness",
                    where=_named(key),
                    message=f"whole again at {event['at']:.0f} s, it went on {waited} (at most {bound_s:.0f} s)",
                )


def i25_independence(case: Case, timeline: Timeline, sufferings: Sufferings) -> Iterator[Violation]:
    """A broker that stands still while the mirror begins holds up none of the partitions that others lead; on a busy
    machine they have longer. If another fault was at work, nobody can tell what held them up.
    """
    machine = Machine(case.events)
    begins = [event for event in case.of("beside frozen") if event["phase"] == "begin"]
    ends = [event for event in case.of("beside frozen") if event["phase"] == "end"]
    for begin, end in zip(begins, ends, strict=False):
        if _faults_at_work(case, begin["at"], end["at"]) > 1:
            continue
        for key in (tuple(each) for each in begin["others"] if not sufferings.of(each[0])):
            begun, resumed = resumption(timeline, key, begin["at"] + _BEHIND_S, is_told=case.are_told)
            until = end["at"] if resumed is None else min(resumed, end["at"])
            bound_s = RESUMED_WITHIN_S * machine.stretch(begin["at"], until)
            if begun is not None and until - begun > bound_s:
                message = f"held up by a frozen broker that does not lead it, for more than {bound_s:.0f} s"
                yield Violation(invariant="I25 independence", where=_named(key), message=message)


def _faults_at_work(case: Case, begin: float, end: float) -> int:
    """How many faults were done at some moment between two."""
    spans: dict[int, tuple[float, float]] = {}
    for event in case.of("fault"):
        since = spans.get(event["number"], (event["at"], 0.0))[0]
        spans[event["number"]] = (since, event["at"])
    return sum(since < end and until > begin for since, until in spans.values())


def resumption(
    timeline: Timeline, key: PartitionKey, healed: float, *, is_told: bool
) -> tuple[float | None, float | None]:
    """From when on both clusters could be looked at (s), `None` if the partition was not behind then; and when it was
    seen to have gone on, `None` if it never was.

    Where the target's end says nothing nobody can tell what it lacks: then it is behind if its source went on growing.
    """
    source = timeline.after("source", key, healed)
    if source is None:
        return None, None
    target = timeline.after("target", key, source.begun)
    before = 0 if target is None else target.high
    looks = timeline.looks("source", key)
    if (before >= source.stable) if is_told else (looks[-1].stable <= source.stable):
        return None, None
    later = (look for look in timeline.looks("target", key) if look.begun > source.ended and look.high > before)
    resumed = next(later, None)
    return source.ended, None if resumed is None else resumed.ended


def _named(key: PartitionKey) -> str:
    return f"{key[0]}-{key[1]}"
