"""What every mirrored partition keeps, record by record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from soak.judge.evidence import Lane, Seen, Violation

_SHOWN: Final = 5


def i1_no_loss(lane: Lane) -> Iterator[Violation]:
    """Every record of the source that is claimed to be copied is at the target."""
    cleaned, held = _cleaned(lane), lane.held
    missing = [r for r in _claimed(lane) if r.offset not in cleaned and not _is_in_gap(lane, r.offset)]
    there = Counter(record.id for record in lane.target.records)
    if lane.is_told:
        lost = [record for record in missing if record.offset not in held]
    else:
        wanted = Counter(record.id for record in missing)
        short = {each for each, count in wanted.items() if there[each] < count}
        lost = [record for record in missing if record.id in short]
    if lost:
        yield _violation("I1 no loss", lane, f"{len(lost)} records of the source are not at the target", lost)


def i2_no_phantom(lane: Lane) -> Iterator[Violation]:
    """Every record of the target is one of the source's."""
    known = {record.id for record in lane.source.records} | lane.issued
    strange = [record for record in lane.target.records if record.id is None or record.id not in known]
    # What strangers wrote is another matter: whether it was told.
    if strange and "foreign write" not in lane.suffered:
        yield _violation("I2 no phantom", lane, f"{len(strange)} records of the target are not the source's", strange)


def i3_no_duplicate(lane: Lane) -> Iterator[Violation]:
    """No record is at the target more often than it stands in the source, but for those that strangers wrote there."""
    here, held = Counter(record.id for record in lane.source.records), {r.offset for r in lane.source.records}
    # What the source's cleaner took cannot be counted there any more.
    is_countable = lane.pairing is not None or not lane.is_compacted
    counted = [record for record in lane.target.records if is_countable or record.offset in held]
    there = Counter(record.id for record in counted)
    doubled = {each for each, count in there.items() if count > max(here[each], 1)}
    # A producer that loses the order in one partition begins a new epoch, and sends again in all others what it has not
    # heard of: no broker knows that as the same. What the source's writers doubled that way stands in the source twice.
    doubled -= lane.foreign
    if doubled:
        shown = [record for record in lane.target.records if record.id in doubled]
        yield _violation("I3 no duplicate", lane, f"{len(doubled)} records are at the target more than once", shown)


def i4_order(lane: Lane) -> Iterator[Violation]:
    """Records stand at the target in the order they have at the source."""
    offsets: dict[str | None, list[int]] = {}
    for record in reversed(lane.source.records):
        offsets.setdefault(record.id, []).append(record.offset)
    last, late = -1, []
    for record in lane.target.records:
        # What stands at the source twice comes in that order; what is there more often is no matter of order.
        left = offsets.get(record.id)
        if left:
            offset = left.pop()
            if offset < last:
                late.append(record)
            last = max(last, offset)
    if late:
        yield _violation("I4 order", lane, f"{len(late)} records came after ones that follow them at the source", late)


def i5_equal_content(lane: Lane) -> Iterator[Violation]:
    """Key, value, headers, timestamp and its type are the source's."""
    here: dict[str | None, set[bytes]] = {}
    for record in lane.source.records:
        here.setdefault(record.id, set()).add(record.content)
    altered = [r for r in lane.target.records if r.id in here and r.content not in here[r.id]]
    altered += [r for r in lane.target.records if r.id is not None and not r.is_sound and r not in altered]
    if altered:
        yield _violation("I5 equal content", lane, f"{len(altered)} records differ from the source's", altered)


def i6_no_aborted_read(lane: Lane) -> Iterator[Violation]:
    """Consumers of committed data see at the target what they see at the source."""
    here = {record.id for record in lane.source.records if record.offset in lane.source.visible}
    hidden = {record.id for record in lane.source.records if record.offset not in lane.source.visible} - here
    leaked = [r for r in lane.target.records if r.offset in lane.target.visible and r.id in hidden]
    if leaked:
        yield _violation("I6 aborted read", lane, f"{len(leaked)} aborted records are visible at the target", leaked)
    missed = [
        record
        for record in lane.target.records
        if record.id in here and record.offset not in lane.target.visible and record.offset < lane.target.stable
    ]
    # Who claims no record to be there once may have hidden one that he wrote again.
    if missed and lane.is_told:
        yield _violation("I6 aborted read", lane, f"{len(missed)} committed records are hidden at the target", missed)


def i9_same_offsets(lane: Lane) -> Iterator[Violation]:
    """A record is at the offset it has at the source, and the target does not end behind the source."""
    if not lane.keeps_offsets or "source recreated" in lane.suffered:
        return
    standing = {**lane.acked, **{record.offset: record.id for record in lane.source.records}}
    known = set(standing.values())
    # At an offset that nobody knows any more another copy of the record may have stood.
    moved = [r for r in lane.target.records if r.id in known and standing.get(r.offset, r.id) != r.id]
    if "source truncated" in lane.suffered:
        # There other records came to stand at the same offsets, which is another matter too.
        moved = []
    elif not lane.is_compacted:
        moved += [r for r in lane.target.records if r.id in known and r.offset not in standing]
    if "foreign write" in lane.suffered:
        # What was on its way when somebody else wrote stands behind that: that the lane stopped then, its state tells.
        stranger = min((r.offset for r in lane.target.records if r.id is None), default=lane.target.high)
        moved = [record for record in moved if record.offset < stranger]
    if moved:
        yield _violation("I9 offsets", lane, f"{len(moved)} records are at other offsets than at the source", moved)
    if lane.target.high > lane.source.high and not lane.suffered & {"source truncated", "foreign write"}:
        ends = f"the target ends at {lane.target.high}, the source at {lane.source.high}"
        yield Violation(invariant="I9 offsets", where=lane.name, message=ends)


def i18_compacted_equality(lane: Lane) -> Iterator[Violation]:
    """The last value of every key is the same on both sides."""
    if not lane.is_compacted:
        return
    end = lane.target.high if lane.keeps_offsets else lane.source.high
    here, there = _latest([r for r in lane.source.records if r.offset < end]), _latest(lane.target.records)
    # A key whose last record deletes it may be gone on either side already.
    keys = {
        key for key in here.keys() | there.keys() if not _is_deleted(here.get(key)) or not _is_deleted(there.get(key))
    }
    differing = [here.get(key) or there[key] for key in keys if _content(here.get(key)) != _content(there.get(key))]
    if differing:
        message = f"{len(differing)} keys have another last value at the target"
        yield _violation("I18 compacted equality", lane, message, differing)


RECORD_INVARIANTS: Final = (
    i1_no_loss,
    i2_no_phantom,
    i3_no_duplicate,
    i4_order,
    i5_equal_content,
    i6_no_aborted_read,
    i9_same_offsets,
    i18_compacted_equality,
)


def _claimed(lane: Lane) -> list[Seen]:
    """What the source holds of what the target claims to have: all before its end, or everything where none is told."""
    if not lane.is_told:
        return list(lane.source.records)
    return [
        record
        for record in lane.source.records
        if lane.begin <= record.offset < lane.end
        and (record.offset in lane.source.visible or not lane.may_lack_aborted)
    ]


def _is_in_gap(lane: Lane, offset: int) -> bool:
    return any(begin <= offset < end for begin, end in lane.gaps)


def _cleaned(lane: Lane) -> frozenset[int]:
    """The offsets the target's cleaner was free to take: their records delete their key, or were aborted, or a later
    record of the target has the key.
    """
    if not lane.is_compacted:
        return frozenset()
    latest = _latest(lane.target.records)
    return frozenset(
        record.offset
        for record in lane.source.records
        if record.is_null
        or record.offset not in lane.source.visible
        or (record.key in latest and (latest[record.key].offset > record.offset or not lane.keeps_offsets))
    )


def _latest(records: Sequence[Seen]) -> dict[bytes | None, Seen]:
    return {record.key: record for record in records}


def _is_deleted(record: Seen | None) -> bool:
    return record is None or record.is_null


def _content(record: Seen | None) -> bytes | None:
    return None if record is None else record.content


def _violation(invariant: str, lane: Lane, message: str, records: Sequence[Seen]) -> Violation:
    shown = tuple(f"{record.id}@{record.offset}" for record in records[:_SHOWN])
    return Violation(invariant=invariant, where=lane.name, message=message, witnesses=shown)
