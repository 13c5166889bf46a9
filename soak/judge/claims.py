"""Whether what is written down of mapped lanes is so: the stored map and the claims of how far they are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from soak.judge.evidence import Case, Lane, Violation
from soak.judge.stored import Place, Segment, StoredMap
from soak.judge.timeline import Sufferings

_SHOWN: Final = 5
_OTHER_RECORDS: Final = frozenset({"source truncated", "source recreated", "target recreated", "circle"})
"""After these other records may stand at the offsets that a map is about: that the lane stops then, its state tells."""


def i9_stored_map(case: Case, sufferings: Sufferings) -> Iterator[Violation]:
    """The stored map is what both logs show: each record that went, at the offset where it is, in the same order."""
    is_quiet = any(event["name"] == "quiet" for event in case.of("phase"))
    for lane in case.lanes:
        if lane.pairing is None or sufferings.of(lane.topic) & _OTHER_RECORDS:
            continue
        if lane.stored is None:
            if lane.pairing.pairs and is_quiet:
                yield _map(lane, f"{len(lane.pairing.pairs)} records were copied, and no map of them is stored")
            continue
        places = lane.stored.places()
        yield from _monotone(lane, places)
        yield from _true(lane, places)
        yield from _whole(lane, lane.stored, places, is_quiet=is_quiet and not sufferings.may_stop(lane.topic))


def i12_ledger_soundness(case: Case, sufferings: Sufferings) -> Iterator[Violation]:
    """Whatever was ever written down as copied is at the target. What comes late may say less than what came before."""
    for lane in case.lanes:
        # What was true when it was written may be lost since.
        if lane.stored is None or sufferings.of(lane.topic) & {*_OTHER_RECORDS, "target truncated"}:
            continue
        for claim in lane.stored.claims:
            if claim.target_next > lane.target.high:
                message = f"{claim.name} is at {claim.target_next} of the target, which ends at {lane.target.high}"
            else:
                missing = _missing(lane, claim)
                if not missing:
                    continue
                message = f"{claim.name} says that all before {claim.source_next} is at the target before"
                message += f" {claim.target_next}; it lacks {len(missing)} records"
            yield Violation(invariant="I12 ledger soundness", where=lane.name, message=message)
            break


def _missing(lane: Lane, claim: Segment) -> list[int]:
    """Offsets of committed records that it says are at the target, and that are not, or behind where it says."""
    reached = lane.source_end(claim.target_next)
    if lane.is_compacted or reached >= claim.source_next:
        # A target that is cleaned has lost records for good reason.
        return []
    return sorted(
        offset
        for offset in lane.source.visible
        if max(lane.begin, reached) <= offset < claim.source_next
        and not any(begin <= offset < end for begin, end in lane.gaps)
    )


def _monotone(lane: Lane, places: list[Place]) -> Iterator[Violation]:
    """Later records of the source are later at the target; the same may be said twice, in the same words."""
    source_end, target_end = 0, 0
    back: list[Place] = []
    for place in places:
        if place.source < source_end or place.target < target_end:
            is_again = place.source < source_end and place.target - place.source == target_end - source_end
            back += [] if is_again else [place]
        if place.source + place.length > source_end:
            source_end, target_end = place.source + place.length, place.target + place.length
    if back:
        yield _map(lane, f"{len(back)} of its ranges contradict others", [tuple(each) for each in back])


def _true(lane: Lane, places: list[Place]) -> Iterator[Violation]:
    """At each offset the map names is the record that it says."""
    here = {**lane.acked, **{record.offset: record.id for record in lane.source.records}}
    held = {record.offset for record in lane.source.records}
    there = {record.offset: record.id for record in lane.target.records}
    wrong: list[str] = []
    for place in places:
        for step in range(max(lane.target.start - place.target, 0), place.length):
            source, target = place.source + step, place.target + step
            if target not in there:
                # A target that is cleaned has lost records for good reason.
                is_wrong = not lane.is_compacted
            elif source in here:
                is_wrong = here[source] != there[target]
            else:
                # The source holds none there, and has never deleted any: a control record, say.
                is_wrong = source not in held and source >= lane.source.start and not lane.is_compacted
            if is_wrong:
                wrong.append(f"{source}->{target}")
            if len(wrong) > lane.target.high:
                break
    if wrong:
        yield _map(lane, f"{len(wrong)} records are not where it says (source->target)", wrong)


def _whole(lane: Lane, stored: StoredMap, places: list[Place], *, is_quiet: bool) -> Iterator[Violation]:
    """Every copied record is in it: in the end all of them, before that those before the place it has come to.

    But for what the source has lost: whoever finds its place again by comparing both logs does not know it any more.
    """
    if lane.pairing is None:
        return
    end = lane.target.high if is_quiet else stored.newest.target_next
    covered = {target for each in places for target in range(each.target, min(each.target + each.length, end))}
    held = {record.offset for record in lane.source.records}
    unknown = [
        f"{here}->{there}"
        for there, here, _ in lane.pairing.pairs
        if there < end and there not in covered and here in held
    ]
    if unknown:
        yield _map(lane, f"{len(unknown)} copied records are not in it (source->target)", unknown)


def _map(lane: Lane, message: str, witnesses: list[Any] | None = None) -> Violation:
    shown = tuple((witnesses or [])[:_SHOWN])
    return Violation(invariant="I9 stored map", where=lane.name, message=message, witnesses=shown)
