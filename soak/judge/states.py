"""Whether what `isthmus status` showed was true."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from soak.history import Event
from soak.judge.evidence import Case, PartitionKey, Violation
from soak.judge.timeline import TERMINAL, Machine, Sufferings, Timeline

_SLACK_S: Final = 1.0
_STILL_S: Final = 40.0
"""A lane that is called ACTIVE and has records to copy has copied some within so long."""
_SILENT_S: Final = 14.0
"""A controller that is gone is called alive for no longer: ten seconds, and the clock of who tells."""
_STARTING_S: Final = 5.0
_NAME: Final = "I22 monitoring truth"


def i22_monitoring_truth(case: Case, timeline: Timeline, sufferings: Sufferings) -> Iterator[Violation]:
    """Ends, lags and states are as the judge sees them himself; no state that lasts is told without its cause."""
    found: dict[str, Violation] = {}
    absences, machine = _absences(case), Machine(case.events)
    lanes = case.by_partition
    for event in case.of("status"):
        for row in event["partitions"]:
            lane = lanes.get((row["topic"], row["partition"]))
            if lane is not None and row["target_end"] is not None:
                row = {**row, "target_end": lane.source_end(row["target_end"])}
            for violation in _judged(event, row, timeline, sufferings, absences, machine):
                # The first of a kind for each partition tells enough.
                found.setdefault(violation.where + violation.message.partition(":")[0], violation)
        for topic in event["topics"]:
            if topic["state"] in TERMINAL and not sufferings.may_end(topic["topic"], topic["state"], event["at"]):
                message = f"false alarm: {topic['state']}, {topic['problem']}"
                found.setdefault(topic["topic"], Violation(invariant=_NAME, where=topic["topic"], message=message))
    yield from found.values()


def _judged(
    event: Event,
    row: dict[str, Any],
    timeline: Timeline,
    sufferings: Sufferings,
    absences: list[tuple[float, float]],
    machine: Machine,
) -> Iterator[Violation]:
    key = (row["topic"], row["partition"])
    where = f"{key[0]}-{key[1]}"
    if row["state"] in TERMINAL and not sufferings.may_end(key[0], row["state"], event["at"]):
        yield Violation(invariant=_NAME, where=where, message=f"false alarm: {row['state']}, {row['problem']}")
    if sufferings.of(key[0]):
        # Its ends were moved about by others, so that nothing can be said of them.
        return
    yield from _ends(event, row, key, where, timeline)
    if row["state"] == "ACTIVE":
        claimed_at = event["begun"] - row["state_age"]
        stretch = machine.stretch(claimed_at - _STILL_S, event["at"])
        silent_s, still_s = _SILENT_S * stretch, _STILL_S * stretch
        absent = next((one for one in absences if one[0] + silent_s < claimed_at and event["at"] < one[1]), None)
        if absent is not None:
            message = f"ACTIVE without a mirror: told at {event['begun']:.1f} s, none ran since {absent[0]:.1f} s"
            yield Violation(invariant=_NAME, where=where, message=message)
        elif _stood_still(timeline, key, claimed_at, still_s):
            message = f"ACTIVE and nothing copied: told at {event['begun']:.1f} s, as of {claimed_at:.1f} s"
            yield Violation(invariant=_NAME, where=where, message=message)


def _ends(event: Event, row: dict[str, Any], key: PartitionKey, where: str, timeline: Timeline) -> Iterator[Violation]:
    """Both ends lie between what was there before they were looked at, and what was there afterwards."""
    for side, field in (("source", "stable"), ("target", "high")):
        told, age_s = row[f"{side}_end"], row[f"{side}_age"]
        if told is None or age_s is None:
            continue
        earlier = timeline.before(side, key, event["begun"] - age_s - _SLACK_S)
        later = timeline.after(side, key, event["at"])
        low = None if earlier is None else getattr(earlier, field)
        high = None if later is None else getattr(later, field)
        if (low is not None and told < low) or (high is not None and told > high):
            message = (
                f"{side} end: {told} was told at {event['begun']:.1f} s as of {age_s} s before, it was {low} to {high}"
            )
            yield Violation(invariant=_NAME, where=where, message=message)
    ends = (row["source_end"], row["target_end"])
    if row.get("copied_end") is not None:
        ends = (ends[0], row["copied_end"])
        there = timeline.after("target", key, event["at"])
        if there is not None and row["copied_end"] > there.high:
            message = f"copied end: {row['copied_end']} was told at {event['begun']:.1f} s, later it was {there.high}"
            yield Violation(invariant=_NAME, where=where, message=message)
    if None not in ends and row["lag"] is not None:
        # What the source deleted since cannot be copied any more.
        start = max((look.start for look in timeline.looks("source", key)), default=0)
        if not max(ends[0] - max(ends[1], start), 0) <= row["lag"] <= max(ends[0] - ends[1], 0):
            yield Violation(invariant=_NAME, where=where, message=f"lag: {row['lag']} was told with the ends {ends}")


def _stood_still(timeline: Timeline, key: PartitionKey, at: float, still_s: float) -> bool:
    """Whether there was something to copy all the time, and the target did not move."""
    there, here = (timeline.within(side, key, at - still_s, at) for side in ("target", "source"))
    if len(there) < 2 or len(here) < 2 or there[-1].ended - there[0].begun < still_s * 0.9:
        return False
    return there[0].high == there[-1].high and all(look.stable > there[-1].high for look in here)


def _absences(case: Case) -> list[tuple[float, float]]:
    """When no process of the mirror ran."""
    found: list[tuple[float, float]] = []
    running, since = 0, 0.0
    for event in case.of("mirror"):
        before = running
        running += {"started": 1, "rival started": 1, "ended": -1, "rival ended": -1}.get(event["did"], 0)
        if before > 0 and running == 0:
            since = event["at"]
        if before == 0 and running > 0:
            found.append((since, event["at"]))
    return found
