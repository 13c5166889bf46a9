"""The log of dead letters of a partition as it is read: letters, and marks of those that were replayed.

A mark is a record of the same log, which a replay writes in the transaction that writes the records themselves:

    isthmus.kind    replayed
    isthmus.into    the topic that got them and its id, as NAME@ID

Its value are the offsets of the letters in their log, as JSON: `[[begin, end], ...]`.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from typing import Final, NamedTuple

from isthmus.engine.batches.rebatch import Record
from isthmus.engine.mapped.letters import KIND, Letter, read_letter
from isthmus.kafka.client import Client
from isthmus.kafka.log.listoffsets import READ_UNCOMMITTED
from isthmus.kafka.log.offsets import log_ranges
from isthmus.kafka.log.reading import LogReader, OffsetRange
from isthmus.model.links.recovery import OffsetRuns
from isthmus.recovery.comparison import decode_records
from isthmus.recovery.quarantine import committed_records

_REPLAYED: Final = b"replayed"
_INTO: Final = "isthmus.into"


class StoredLetter(NamedTuple):
    """A dead letter, and its offset in the log of letters."""

    stored: int
    letter: Letter


class LetterLog(NamedTuple):
    """What a log of dead letters holds up to `end`; `replayed` are the offsets in it of letters that were replayed, by
    where.
    """

    letters: list[StoredLetter]
    replayed: dict[str, OffsetRuns]
    end: int = 0

    @property
    def all_replayed(self) -> OffsetRuns:
        """The offsets in the log of letters that were replayed, wherever."""
        return OffsetRuns(offset for runs in self.replayed.values() for offset in runs)


def mark_replayed(into: str, stored: Iterable[int], timestamp: int) -> Record:
    """Return the mark that the letters at these offsets of their log were replayed into a topic, at a time (ms)."""
    runs: list[list[int]] = []
    for offset in sorted(stored):
        if runs and runs[-1][1] == offset:
            runs[-1][1] = offset + 1
        else:
            runs.append([offset, offset + 1])
    headers: list[tuple[str, bytes | None]] = [(KIND, _REPLAYED), (_INTO, into.encode())]
    return Record(0, timestamp, None, json.dumps(runs).encode(), headers)


async def read_letters(client: Client, topic: str, partition: int) -> LetterLog:
    """Read the letters of a partition, in the order in which they were written. What other programs wrote is left out.

    :raises ClusterError: It cannot be read.
    """
    outcomes = await log_ranges(client, [(topic, partition)])
    for error in outcomes.errors.values():
        raise error
    log = outcomes.values[topic, partition]
    found = LetterLog([], {}, log.end)
    async with aclosing(_read(client, OffsetRange(topic, partition, log.start, log.end))) as records:
        async for record in records:
            letter = read_letter(record)
            if letter is not None:
                found.letters.append(StoredLetter(record.offset, letter))
            else:
                _take_mark(record, found.replayed)
    return found


async def has_marks(client: Client, span: OffsetRange, into: str) -> bool:
    """Return whether a range of a log has marks that letters were replayed into a topic; aborted ones count as well.

    :raises ClusterError: It cannot be read, or its leader does not have all of it.
    """
    replayed: dict[str, OffsetRuns] = {}
    async with aclosing(LogReader(client, isolation=READ_UNCOMMITTED).read(span)) as answers:
        async for stored in answers:
            for batch, _ in stored:
                for record in [] if batch.is_control else decode_records(batch, client.cluster.alias, span):
                    _take_mark(record, replayed)
    return into in replayed


async def _read(client: Client, span: OffsetRange) -> AsyncGenerator[Record, None]:
    async with aclosing(committed_records(client, span)) as batches:
        async for _, records in batches:
            for record in records:
                yield record


def _take_mark(record: Record, replayed: dict[str, OffsetRuns]) -> None:
    said = dict(record.headers)
    into = said.get(_INTO)
    if len(record.headers) == 2 and said.get(KIND) == _REPLAYED and into is not None:
        try:
            spans = [(int(begin), int(end)) for begin, end in json.loads(record.value or b"")]
        except (ValueError, TypeError):
            return
        runs = replayed.setdefault(into.decode(errors="replace"), OffsetRuns())
        for begin, end in spans:
            # Only letters before the mark can have been replayed.
            for offset in range(max(begin, 0), min(end, record.offset)):
                runs.add(offset)
