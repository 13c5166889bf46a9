"""Whether what only the target had is somewhere still, whatever became of its topic."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from soak.content import record_id
from soak.history import Event
from soak.judge.evidence import NO_LOG, Case, Log, PartitionKey, Violation

QUARANTINE_PREFIX: Final = "__isthmus.quarantine."
"""Before the name of a topic: where its records are set aside, as docs/recovery.md says."""
_NAME: Final = "I24 nothing nowhere"
_SHOWN: Final = 5
Logs = Mapping[PartitionKey, Log]


def i24_nothing_nowhere(events: tuple[Event, ...], source: Logs, target: Logs, quarantine: Logs) -> Iterator[Violation]:
    """Each record that the target held when its source lost records is in one of both logs or set aside; and all that
    applications wrote to a topic that was let go of is in this topic.
    """
    case = Case(events=events, lanes=())
    for event in case.of("held"):
        key = (event["topic"], event["partition"])
        somewhere = {record.id for logs in (source, target, quarantine) for record in logs.get(key, NO_LOG).records}
        lost = [each for each in event["ids"] if each not in somewhere]
        if lost:
            message = f"{len(lost)} of {len(event['ids'])} records that the target held are nowhere"
            yield Violation(
                invariant=_NAME, where=f"{key[0]}-{key[1]}", message=message, witnesses=tuple(lost[:_SHOWN])
            )
        there = {record.id for record in target.get(key, NO_LOG).records}
        gone = [each for each in _written(case, key) if each not in there]
        if gone:
            message = f"{len(gone)} records that applications wrote after the failover are not in the topic"
            yield Violation(
                invariant=_NAME, where=f"{key[0]}-{key[1]}", message=message, witnesses=tuple(gone[:_SHOWN])
            )


def _written(case: Case, key: PartitionKey) -> list[str]:
    """The ids of what others were told to be in the target."""
    return [
        record_id(event["writer"], partition, number + step)
        for event in case.of("stranger")
        if event["topic"] == key[0]
        for partition, number, _, count in event["acked"]
        if partition == key[1]
        for step in range(count)
    ]
