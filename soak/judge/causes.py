"""Whether what could not be copied was told, with its cause, and nothing was copied that does not belong there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from soak.judge.evidence import Case, Lane, Violation
from soak.judge.timeline import TERMINAL, Sufferings

_AGAIN: Final = "-again"
"""How writers of a topic that was created anew are called, at the end of their names."""
_SHOWN: Final = 5


def i16_gap_honesty(case: Case, sufferings: Sufferings) -> Iterator[Violation]:
    """Whatever is missing for good was told as such, as what it is; whatever was told as missing is."""
    states = _final_states(case)
    for lane in case.lanes:
        what, state = sufferings.of(lane.topic), states.get((lane.topic, lane.partition), "nothing")
        held = lane.held
        for begin, end in lane.gaps:
            if not any(begin <= offset < end and offset not in held for offset in lane.acked):
                yield _told(lane, f"a gap [{begin}, {end}) was told in which nothing is missing")
            if any(begin <= offset < end for offset in held):
                yield _told(lane, f"a gap [{begin}, {end}) was told of which records are at the target")
        lost = [offset for offset in _unreachable(lane) if offset not in held and not _is_in_gap(lane, offset)]
        if "source lost records" in what and lost and state != "DATA_GAP":
            message = f"{len(lost)} records were deleted at the source before they were copied; told was {state}"
            yield _told(lane, message, lost)
        if "source truncated" in what and (changed := _diverging(lane)) and state != "DIVERGED":
            yield _told(
                lane, f"{len(changed)} records are not, or no more, those of the source; told was {state}", changed
            )
        if "foreign write" in what and any(record.id is None for record in lane.target.records):
            stranger = [record.offset for record in lane.target.records if record.id is None]
            if state not in ("FOREIGN_WRITE", "DIVERGED", "FAILED"):
                yield _told(lane, f"somebody else wrote to the target; told was {state}", stranger)


def i17_incarnation(case: Case, sufferings: Sufferings) -> Iterator[Violation]:
    """What is at the target comes from one incarnation of the source's topic, and goes into one of the target's."""
    states = _final_states(case)
    for lane in case.lanes:
        what, state = sufferings.of(lane.topic), states.get((lane.topic, lane.partition), "nothing")
        again = [record.offset for record in lane.target.records if _AGAIN in (record.id or "")]
        if "circle" in what:
            counted = Counter(record.id for record in lane.source.records)
            round_again = [record.offset for record in lane.source.records if counted[record.id] > 1]
            if round_again:
                yield _mixed(lane, f"{len(round_again)} records went round and came back to the source", round_again)
        if "source recreated" in what:
            if again:
                yield _mixed(lane, f"{len(again)} records of the topic's second life were copied", again)
            elif state != "TOPIC_RECREATED":
                yield _mixed(lane, f"the source's topic was created anew; told was {state}")
        if "target recreated" in what:
            has_run = _has_run_since(case, sufferings.since(lane.topic, "target recreated"))
            yield from _second_target(lane, state, has_run=has_run)


def _second_target(lane: Lane, state: str, *, has_run: bool) -> Iterator[Violation]:
    """A target that was created anew is left alone by who was running then. Who starts later begins anew."""
    offsets = [record.offset for record in lane.target.records]
    if offsets and has_run:
        if changed := _diverging(lane):
            yield _mixed(lane, f"{len(changed)} records in the topic that replaced the first are others", changed)
    elif offsets:
        yield _mixed(lane, f"{len(offsets)} records were copied into a topic that replaced the first", offsets)
    elif state not in ("TOPIC_RECREATED", "nothing") or (state == "nothing" and lane.keeps_offsets):
        yield _mixed(lane, f"the target's topic was deleted; told was {state}")


def _has_run_since(case: Case, at: float) -> bool:
    """Whether a mirror was started after that moment."""
    return any(event["did"] == "started" and event["at"] > at for event in case.of("mirror"))


def _final_states(case: Case) -> dict[tuple[str, int], str]:
    """What the last look at the mirror's status showed of every partition; what is told of a topic holds for all."""
    looks = case.of("status")
    if not looks:
        return {}
    found = {(row["topic"], row["partition"]): row["state"] for row in looks[-1]["partitions"]}
    ended = {topic["topic"]: topic["state"] for topic in looks[-1]["topics"] if topic["state"] in TERMINAL}
    for lane in case.lanes:
        if lane.topic in ended:
            found[lane.topic, lane.partition] = ended[lane.topic]
    return found


def _unreachable(lane: Lane) -> list[int]:
    """Offsets the source had acknowledged and holds no more, before what the target could still copy."""
    end = max(lane.end, lane.source.start)
    return sorted(offset for offset in lane.acked if lane.begin <= offset < end and offset < lane.source.start)


def _diverging(lane: Lane) -> list[int]:
    """Offsets of what is at the target where the source has another record, or none behind its end."""
    here = {record.offset: record.id for record in lane.source.records}
    copied = [(record.offset, record.id) for record in lane.target.records]
    if lane.pairing is not None:
        copied = [(offset, each) for _, offset, each in lane.pairing.pairs]
    return [
        offset for offset, each in copied if offset >= lane.source.high or (offset in here and here[offset] != each)
    ]


def _is_in_gap(lane: Lane, offset: int) -> bool:
    return any(begin <= offset < end for begin, end in lane.gaps)


def _told(lane: Lane, message: str, offsets: list[int] | None = None) -> Violation:
    return Violation(
        invariant="I16 gap honesty", where=lane.name, message=message, witnesses=tuple((offsets or [])[:_SHOWN])
    )


def _mixed(lane: Lane, message: str, offsets: list[int] | None = None) -> Violation:
    return Violation(
        invariant="I17 incarnation", where=lane.name, message=message, witnesses=tuple((offsets or [])[:_SHOWN])
    )
