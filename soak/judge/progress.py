"""Whether the mirror was ever ahead of its source, and whether it went on after faults."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from soak.history import Event
from soak.judge.evidence import Case, PartitionKey, Violation
from soak.judge.timeline import Sufferings, Timeline

RESUMED_WITHIN_S: Final = 60.0
_SHOWN: Final = 5


def i7_no_early_read(case: Case, timeline: Timeline, sufferings: Sufferings) -> Iterator[Violation]:
    """Nothing is at the target before it is stable at the source, not even for a moment."""
    if not all(lane.keeps_offsets for lane in case.lanes):
        return
    for key in sorted(timeline.keys("target")):
        if sufferings.may_stop(key[0]):
            continue
        for look in timeline.looks("target", key):
            source = timeline.after("source", key, look.ended)
            if source is not None and look.high > source.stable:
                ends = f"at {look.ended:.1f} s the target ended at {look.high}, later the source at {source.stable}"
                yield Violation(invariant="I7 early read", where=_named(key), message=ends)
                break


def i8_no_torn_transaction(case: Case, timeline: Timeline) -> Iterator[Violation]:
    """Within a partition the records of a committed transaction become visible all at once."""
    if not all(lane.keeps_offsets for lane in case.lanes):
        return
    torn: dict[PartitionKey, list[str]] = {}
    for event in case.of("txn"):
        if event["ended"] != "committed":
            continue
        for partition, first, last in event["spans"]:
            key = (event["topic"], partition)
            for look in timeline.looks("target", key):
                if first < look.stable <= last:
                    torn.setdefault(key, []).append(f"[{first}, {last}] ended at {look.stable} at {look.ended:.1f} s")
                    break
    for key, found in torn.items():
        message = f"{len(found)} committed transactions were visible in part"
        yield Violation(
            invariant="I8 torn transaction", where=_named(key), message=message, witnesses=tuple(found[:_SHOWN])
        )


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
    """Within a minute after everything is whole again every partition goes on that lags."""
    keeps_offsets = all(lane.keeps_offsets for lane in case.lanes)
    for event in case.of("bout"):
        if event["phase"] != "healed":
            continue
        # A machine that does other things too has that much less of a minute.
        bound_s = RESUMED_WITHIN_S * max(1.0, event["load"] / max(event["processors"], 1))
        for key in sorted(timeline.keys("source")):
            if sufferings.may_stop(key[0]):
                continue
            took_s = resumption_s(timeline, key, event, keeps_offsets=keeps_offsets)
            if took_s is not None and took_s > bound_s:
                waited = "never" if took_s == float("inf") else f"{took_s:.0f} s later"
                yield Violation(
                    invariant="I21 liveness",
                    where=_named(key),
                    message=f"whole again at {event['at']:.0f} s, it went on {waited} (at most {bound_s:.0f} s)",
                )


def resumption_s(timeline: Timeline, key: PartitionKey, healed: Event, *, keeps_offsets: bool) -> float | None:
    """How long a partition took to go on: from when both clusters could be looked at; `None` if it was not behind.

    Without equal offsets nobody can tell what it lacks: then it is behind if its source went on growing.
    """
    source = timeline.after("source", key, healed["at"])
    if source is None:
        return None
    target = timeline.after("target", key, source.begun)
    before = 0 if target is None else target.high
    looks = timeline.looks("source", key)
    if (before >= source.stable) if keeps_offsets else (looks[-1].stable <= source.stable):
        return None
    later = (look for look in timeline.looks("target", key) if look.begun > source.ended and look.high > before)
    resumed = next(later, None)
    if resumed is not None:
        return resumed.ended - source.ended
    # It may have been lost sight of; then nothing is known.
    return float("inf") if looks[-1].ended - source.ended > RESUMED_WITHIN_S else None


def _named(key: PartitionKey) -> str:
    return f"{key[0]}-{key[1]}"
