"""Whether what a promotion or a failover said of what it left behind was true."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from soak.content import record_id
from soak.history import Event
from soak.judge.evidence import NO_LOG, Case, Lane, Log, PartitionKey, Violation
from soak.judge.records import RECORD_INVARIANTS

LATE: Final = "late"
"""Who writes to the source when it was let go of, or could not be heard any more."""
AFTERWARDS: Final = "afterwards"
"""Who writes to the target when it was said that one may."""
_SLACK_S: Final = 1.0
_SHOWN: Final = 5
_NAME: Final = "I23 cutover"
Logs = Mapping[PartitionKey, Log]


def i23_cutover(events: tuple[Event, ...], source: Logs, target: Logs) -> Iterator[Violation]:
    """After a promotion the target has all that the source had, and nothing that came later; after a failover no more
    is missing than was said, but for what came since the source was last heard. Then the target can be written to.
    """
    case = Case(events=events, lanes=())
    for event in case.of("cutover"):
        if event["code"] != 0:
            message = f"{event['verb']} ended with code {event['code']} when all was quiet: {event['said']}"
            yield Violation(invariant=_NAME, where="link", message=message)
            continue
        claims = {(row["topic"], row["partition"]): row for row in event["partitions"]}
        for key in sorted(source.keys() | claims.keys()):
            where = f"{key[0]}-{key[1]}"
            if key not in claims:
                yield Violation(invariant=_NAME, where=where, message=f"{event['verb']} says nothing of it")
                continue
            here, there = source.get(key, NO_LOG), target.get(key, NO_LOG)
            for message, witnesses in _judged(case, event, key, claims[key], here, there):
                yield Violation(invariant=_NAME, where=where, message=message, witnesses=tuple(witnesses[:_SHOWN]))
            yield from _copied(key, claims[key], here, there)


def _judged(
    case: Case, event: Event, key: PartitionKey, claim: Mapping[str, Any], here: Log, there: Log
) -> Iterator[tuple[str, list[object]]]:
    end, told_end, missing = claim["target_end"], claim["source_end"], claim["missing_records"]
    if end is None:
        yield f"{event['verb']} does not say where the target ends", []
        return
    behind = [record.id for record in there.records if record.offset >= end and not _is_by(record.id, AFTERWARDS)]
    if behind:
        yield f"{len(behind)} records came behind the end that was told, {end}", [*behind]
    if not any(_is_by(record.id, AFTERWARDS) for record in there.records):
        yield "nobody could write to the target", []
    early = [record for record in here.records if not _is_by(record.id, LATE)]
    if event["verb"] == "promote":
        lost = [record.id for record in early if record.offset >= end]
        if lost:
            yield f"{len(lost)} records are not at the target, which ends at {end}", [*lost]
        if missing != 0:
            yield f"{missing} records are told as missing", []
        return
    if told_end is None:
        # Then it was said that nobody knows.
        return
    gone = [record.offset for record in here.records if end <= record.offset < told_end]
    if missing is not None and len(gone) > missing:
        yield f"{len(gone)} records of the source before {told_end} are missing, told were {missing}", [*gone]
    heard_at = event["begun"] - (claim["source_end_age_seconds"] or 0.0) - _SLACK_S
    unheard = [offset for offset in _acked_before(case, key, heard_at) if offset >= told_end]
    if unheard:
        yield f"the source ended at {told_end} by what was heard at {heard_at:.1f} s, but had more", [*unheard]


def _copied(key: PartitionKey, claim: Mapping[str, Any], here: Log, there: Log) -> Iterator[Violation]:
    """What came from the source, judged as in every lane that keeps offsets."""
    end = claim["target_end"] or 0
    lane = Lane(topic=key[0], partition=key[1], source=_before(here, here.high), target=_before(there, end))
    for invariant in RECORD_INVARIANTS:
        yield from invariant(lane)


def _before(log: Log, end: int) -> Log:
    end = min(end, log.high)
    return replace(
        log,
        records=tuple(record for record in log.records if record.offset < end),
        visible=frozenset(offset for offset in log.visible if offset < end),
        stable=min(log.stable, end),
        high=end,
    )


def _acked_before(case: Case, key: PartitionKey, at: float) -> list[int]:
    """Offsets that the source had acknowledged by then."""
    return [
        offset + step
        for event in case.of("sent")
        if event["topic"] == key[0] and event["at"] <= at
        for partition, _, offset, count in event["acked"]
        if partition == key[1]
        for step in range(count)
    ]


def _is_by(identity: str | None, writer: str) -> bool:
    return identity is not None and identity.partition(".")[0] == record_id(writer, 0, 0).partition(".")[0]
