"""Whether what `isthmus status` showed was true."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from soak.history import Event
from soak.judge.calm import Calm, absences
from soak.judge.evidence import Case, PartitionKey, Violation
from soak.judge.timeline import TERMINAL, Machine, Sufferings, Timeline

_SLACK_S: Final = 1.0
_STILL_S: Final = 40.0
"""A lane that is called ACTIVE and has records to copy has copied some within so long."""
_SILENT_S: Final = 14.0
"""A controller that is gone is called alive for no longer: ten seconds, and the clock of who tells."""
_FRESH_S: Final = 5.0
"""What the source has got no longer ago needs not be at the target yet where all is well."""
_PASSING: Final = frozenset(
    {"SOURCE_UNAVAILABLE", "TARGET_UNAVAILABLE", "NOT_AUTHORIZED", "BLOCKED", "STOPPED", "SOURCE_DELETED"}
)
"""States that end by themselves when their cause does. STARTING is none: a lane is that whenever a lease hands it over,
which may be every ten seconds.
"""
_OPERATORS: Final = frozenset({"PAUSED", "HELD"})
"""States that only operators cause: faults pause topics, and nobody switches leaves."""
_RESUMED_S: Final = 14.0
"""What is resumed is called paused for no longer."""
NAME: Final = "I22 monitoring truth"


def i22_monitoring_truth(case: Case, timeline: Timeline, sufferings: Sufferings) -> Iterator[Violation]:
    """Ends, lags and states are as the judge sees them himself; no state that lasts is told without its cause."""
    found: dict[str, Violation] = {}
    machine = Machine(case.events)
    known = _Known(timeline, sufferings, machine, Calm(case.events, machine), absences(case.events), _pauses(case))
    lanes = case.by_partition
    for event in case.of("status"):
        for row in event["partitions"]:
            lane = lanes.get((row["topic"], row["partition"]))
            if lane is not None and row["target_end"] is not None:
                row = {**row, "target_end": lane.source_end(row["target_end"])}
            for violation in _judged(event, row, known):
                # The first of a kind for each partition tells enough.
                found.setdefault(violation.where + violation.message.partition(":")[0], violation)
        for topic in event["topics"]:
            if message := known.alarm(event, topic, [key for key in lanes if key[0] == topic["topic"]]):
                found.setdefault(topic["topic"], Violation(invariant=NAME, where=topic["topic"], message=message))
    yield from found.values()


class _Known(NamedTuple):
    """What states are held against."""

    timeline: Timeline
    sufferings: Sufferings
    machine: Machine
    calm: Calm
    absences: list[tuple[float, float]]
    pauses: dict[str, list[tuple[float, float]]]

    def alarm(self, event: Event, row: dict[str, Any], keys: list[PartitionKey]) -> str | None:
        """What is wrong with a state that was shown of some partitions of one topic, if anything."""
        topic, state = row["topic"], row["state"]
        if state in TERMINAL and not self.sufferings.may_end(topic, state, event["at"]):
            return f"false alarm: {state}, {row['problem']}"
        if state in _OPERATORS and not self._is_paused(event, row):
            return f"nobody did that: {state}, {row['problem']}"
        if state not in _PASSING or self.sufferings.of(topic) or not keys:
            return None
        claimed_at = event["begun"] - row.get("state_age", 0.0)
        if self.calm.lasts(claimed_at, event["at"]) and all(self._is_copied(key, claimed_at) for key in keys):
            return f"{state} though all was whole and copied: told at {event['begun']:.1f} s, {row['problem']}"
        return None

    def _is_paused(self, event: Event, row: dict[str, Any]) -> bool:
        """Whether a fault had paused the topic by then, and not resumed it long before."""
        claimed_at = event["begun"] - row.get("state_age", 0.0)
        slack_s = _RESUMED_S * self.machine.stretch(claimed_at - _RESUMED_S, event["at"])
        pauses = self.pauses.get(row["topic"], ()) if row["state"] == "PAUSED" else ()
        return any(begin <= event["at"] and claimed_at <= end + slack_s for begin, end in pauses)

    def _is_copied(self, key: PartitionKey, at: float) -> bool:
        """Whether the target had then all that the source had a moment before."""
        here, there = self.timeline.before("source", key, at - _FRESH_S), self.timeline.before("target", key, at)
        return here is not None and there is not None and 0 < here.stable <= there.high


def _judged(event: Event, row: dict[str, Any], known: _Known) -> Iterator[Violation]:
    key = (row["topic"], row["partition"])
    where = f"{key[0]}-{key[1]}"
    timeline, machine = known.timeline, known.machine
    if message := known.alarm(event, row, [key]):
        yield Violation(invariant=NAME, where=where, message=message)
    if known.sufferings.of(key[0]):
        # Its ends were moved about by others, so that nothing can be said of them.
        return
    yield from _ends(event, row, key, where, timeline)
    if row["state"] == "ACTIVE":
        claimed_at = event["begun"] - row["state_age"]
        stretch = machine.stretch(claimed_at - _STILL_S, event["at"])
        silent_s, still_s = _SILENT_S * stretch, _STILL_S * stretch
        absent = next((one for one in known.absences if one[0] + silent_s < claimed_at and event["at"] < one[1]), None)
        if absent is not None:
            message = f"ACTIVE without a mirror: told at {event['begun']:.1f} s, none ran since {absent[0]:.1f} s"
            yield Violation(invariant=NAME, where=where, message=message)
        elif _stood_still(timeline, key, claimed_at, still_s):
            message = f"ACTIVE and nothing copied: told at {event['begun']:.1f} s, as of {claimed_at:.1f} s"
            yield Violation(invariant=NAME, where=where, message=message)


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
            yield Violation(invariant=NAME, where=where, message=message)
    ends = (row["source_end"], row["target_end"])
    if row.get("copied_end") is not None:
        ends = (ends[0], row["copied_end"])
        there = timeline.after("target", key, event["at"])
        if there is not None and row["copied_end"] > there.high:
            message = f"copied end: {row['copied_end']} was told at {event['begun']:.1f} s, later it was {there.high}"
            yield Violation(invariant=NAME, where=where, message=message)
    if None not in ends and row["lag"] is not None:
        # What the source deleted since cannot be copied any more.
        start = max((look.start for look in timeline.looks("source", key)), default=0)
        if not max(ends[0] - max(ends[1], start), 0) <= row["lag"] <= max(ends[0] - ends[1], 0):
            yield Violation(invariant=NAME, where=where, message=f"lag: {row['lag']} was told with the ends {ends}")


def _stood_still(timeline: Timeline, key: PartitionKey, at: float, still_s: float) -> bool:
    """Whether there was something to copy all the time, and the target did not move."""
    there, here = (timeline.within(side, key, at - still_s, at) for side in ("target", "source"))
    if len(there) < 2 or len(here) < 2 or there[-1].ended - there[0].begun < still_s * 0.9:
        return False
    return there[0].high == there[-1].high and all(look.stable > there[-1].high for look in here)


def _pauses(case: Case) -> dict[str, list[tuple[float, float]]]:
    """When faults had topics paused; one that was never resumed has no end."""
    found: dict[str, list[tuple[float, float]]] = {}
    for event in case.of("paused"):
        spans = found.setdefault(event["topic"], [])
        if event["phase"] == "begin":
            spans.append((event["at"], float("inf")))
        elif spans:
            spans[-1] = (spans[-1][0], event["at"])
    return found
