"""Whether consumer groups stand at the target where they may."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Final

from soak.history import Event
from soak.judge.evidence import Case, Lane, PartitionKey, Violation

_Place = tuple[str, PartitionKey]
_SHOWN: Final = 5


def i14_no_overshoot(case: Case) -> Iterator[Violation]:
    """A group is never further at the target than any commit at the source has put it."""
    if not case.are_told:
        yield from _skipped(case)
        return
    lanes = case.by_partition
    furthest: dict[_Place, int] = {}
    reported: set[_Place] = set()
    for event in case.of("commit", "positions"):
        if event["kind"] == "commit":
            place = (event["group"], (event["topic"], event["partition"]))
            offset = _at_source(lanes, place, event["offset"])
            furthest[place] = max(furthest.get(place, 0), offset)
            continue
        for place, told in _told(event["target"]).items():
            offset = _at_target(lanes, place, told)
            if offset > furthest.get(place, 0) and place not in reported and place[0] not in touched_groups(case):
                reported.add(place)
                message = (
                    f"{_named(place)} at {offset}, committed at most {furthest.get(place, 0)} (at {event['at']:.1f} s)"
                )
                yield Violation(invariant="I14 group overshoot", where=place[0], message=message)


def i15_no_undershoot(case: Case) -> Iterator[Violation]:
    """In the end a group stands at the target where it stands at the source; on the way it is not set back alone, is
    never behind the end of the target's log, and what a real consumer commits at the target stays.
    """
    yield from _kept(case)
    yield from _beyond(case)
    final = _final(case)
    # Without equal offsets a position may be behind: how far is nobody's promise.
    if final is None or not case.are_told:
        return
    lanes = case.by_partition
    here, there = _told(final["source"]), _told(final["target"])
    mirrored = {key for key, lane in lanes.items() if lane.end >= lane.source.stable}
    differing = [
        f"{_named(place)} {offset} there, {there.get(place)} here"
        for place, offset in here.items()
        if place[1] in mirrored
        and place[0] not in touched_groups(case)
        and not _is_same(lanes, place, offset, there.get(place))
    ]
    if differing:
        message = f"{len(differing)} positions differ when all was quiet (at the source, at the target)"
        yield Violation(
            invariant="I15 group undershoot", where="groups", message=message, witnesses=tuple(differing[:_SHOWN])
        )


def _at_source(lanes: Mapping[PartitionKey, Lane], place: _Place, offset: int) -> int:
    """A position at the source; where offsets differ, the first record of those copied that is behind it."""
    pairing = lanes[place[1]].pairing if place[1] in lanes else None
    return offset if pairing is None else pairing.next_of_source(offset)


def _at_target(lanes: Mapping[PartitionKey, Lane], place: _Place, offset: int) -> int:
    """The same for a position at the target."""
    pairing = lanes[place[1]].pairing if place[1] in lanes else None
    return offset if pairing is None else pairing.next_of_target(offset)


def _is_same(lanes: Mapping[PartitionKey, Lane], place: _Place, here: int, there: int | None) -> bool:
    return there is not None and _at_source(lanes, place, here) == _at_target(lanes, place, there)


def _skipped(case: Case) -> Iterator[Violation]:
    """Records that a group has not read at the source and would not read at the target, told by their ids."""
    final = _final(case)
    if final is None:
        return
    lanes = case.by_partition
    here, there = _told(final["source"]), _told(final["target"])
    for place, position in there.items():
        lane = lanes.get(place[1])
        if lane is None or place not in here or place[0] in touched_groups(case):
            continue
        ahead = {record.id for record in lane.source.records if record.id and record.offset >= here[place]}
        ahead &= {record.id for record in lane.target.records}
        skipped = ahead - {record.id for record in lane.target.records if record.offset >= position}
        if skipped:
            message = f"{_named(place)}: {len(skipped)} records not read at the source would be skipped at the target"
            yield Violation(
                invariant="I14 group overshoot",
                where=place[0],
                message=message,
                witnesses=tuple(sorted(skipped)[:_SHOWN]),
            )


def _final(case: Case) -> Event | None:
    return next((event for event in reversed(case.of("positions")) if event.get("final")), None)


def _kept(case: Case) -> Iterator[Violation]:
    for event in case.of("kept"):
        if event["found"] != event["expected"]:
            message = f"a consumer at the target committed {event['expected']}, later {event['found']} stood there"
            yield Violation(invariant="I15 group undershoot", where=event["group"], message=message)


def _beyond(case: Case) -> Iterator[Violation]:
    """Positions are compared with ends that were looked at later."""
    for event in case.of("positions"):
        for place, offset in _told(event["target"]).items():
            end = event["target_ends"].get(f"{place[1][0]}:{place[1][1]}")
            if end is not None and offset > end:
                message = f"{_named(place)} at {offset}, where the target ends at {end} (at {event['at']:.1f} s)"
                yield Violation(invariant="I15 group undershoot", where=place[0], message=message)
                return


def settled_groups(case: Case, look: Event) -> dict[str, bool]:
    """Whether each group stood in one look, in all partitions that are mirrored, where it stood at the source."""
    lanes = case.by_partition
    here, there = _told(look["source"]), _told(look["target"])
    found: dict[str, bool] = {}
    for place, offset in here.items():
        if place[1] in lanes:
            is_same = _is_same(lanes, place, offset, there.get(place))
            found[place[0]] = found.get(place[0], True) and is_same
    return found


def touched_groups(case: Case) -> set[str]:
    """Groups that consumers used at the target, or that were deleted."""
    return {event["group"] for event in case.of("touched")}


def _told(positions: dict[str, dict[str, int]]) -> dict[_Place, int]:
    found: dict[_Place, int] = defaultdict(int)
    for group, each in positions.items():
        for name, offset in each.items():
            topic, _, partition = name.rpartition(":")
            found[group, (topic, int(partition))] = offset
    return found


def _named(place: _Place) -> str:
    return f"{place[1][0]}-{place[1][1]}"
