"""The log of dead letters of a partition as it is read: letters, and marks of those that were replayed.

A mark is a record of the same log, which a replay writes in the transaction that writes the records themselves:

    isthmus.kind    replayed
    isthmus.into    the topic that got them and its id, as NAME@ID

Its value are the offsets of the letters in their log, as JSON: `[[begin, end], ...]`.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Sequence
from contextlib import aclosing
from typing import Any, Final, NamedTuple, TypeVar, cast

from isthmus.engine.batches.rebatch import Record
from isthmus.engine.mapped.letters import KIND, Letter, read_letter
from isthmus.engine.mapped.reworking import measure
from isthmus.errors import ClusterError
from isthmus.kafka.batches.records import Headers
from isthmus.kafka.client import Client
from isthmus.kafka.log.listoffsets import READ_UNCOMMITTED, PartitionKey
from isthmus.kafka.log.offsets import log_ranges
from isthmus.kafka.log.reading import LogReader, OffsetRange
from isthmus.model.links.recovery import OffsetRuns
from isthmus.recovery.comparison import decode_records
from isthmus.recovery.quarantine import committed_records

_REPLAYED: Final = b"replayed"
_INTO: Final = "isthmus.into"
_NEAR: Final = 16
_NO_HEADERS: Final[Headers] = []
_T = TypeVar("_T", bound=Hashable)


class StoredLetter(NamedTuple):
    """A dead letter, its offset in the log of letters, and how large its record is (`measure`)."""

    stored: int
    letter: Letter
    size: int = 0


class LetterLog(NamedTuple):
    """What a log of dead letters holds up to `end`: the places of letters, without reasons and contents. `replayed`
    are the offsets in it of letters that were replayed, by where.
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
    """Read the places of the letters of a partition, in the order in which they were written. What other programs wrote
    is left out.

    :raises ClusterError: It cannot be read.
    """
    outcomes = await log_ranges(client, [(topic, partition)])
    for error in outcomes.errors.values():
        raise error
    log = outcomes.values[topic, partition]
    found, shared = LetterLog([], {}, log.end), dict[Hashable, Any]()
    span = OffsetRange(topic, partition, log.start, log.end)
    async with aclosing(committed_records(client, span)) as batches:
        async for _, records in batches:
            for record in records:
                letter = read_letter(record)
                if letter is None:
                    _take_mark(record, found.replayed)
                else:
                    place = _place_of(letter, shared)
                    found.letters.append(StoredLetter(record.offset, place, measure(letter.record)))
    return found


def _place_of(letter: Letter, shared: dict[Hashable, Any]) -> Letter:
    """Return a letter without what is large; texts that many have are there once."""

    def one(value: _T) -> _T:
        return cast("_T", shared.setdefault(value, value))

    record = letter.record
    return letter._replace(
        cluster=one(letter.cluster),
        topic=one(letter.topic),
        topic_id=one(letter.topic_id),
        target_id=one(letter.target_id),
        transform=one(letter.transform),
        reason="",
        record=record._replace(key=None, value=None, headers=_NO_HEADERS),
    )


async def load_letters(client: Client, key: PartitionKey, places: Sequence[StoredLetter]) -> list[Letter]:
    """Read letters whose places are known, in the order that is given.

    :raises ClusterError: They cannot be read, or are gone.
    """
    found: dict[int, Letter] = {}
    wanted = {each.stored for each in places}
    reader = LogReader(client, isolation=READ_UNCOMMITTED)
    for span in _spans(key, sorted(wanted)):
        async with aclosing(reader.read(span)) as answers:
            async for answer in answers:
                for batch, _ in answer:
                    records = [] if batch.is_control else decode_records(batch, client.cluster.alias, span)
                    asked = (each for each in records if each.offset in wanted)
                    found |= {each.offset: letter for each in asked if (letter := read_letter(each)) is not None}
    if lacking := wanted - found.keys():
        raise ClusterError(
            f"topic {key[0]} of {client.cluster.alias} has no dead letter at offset {min(lacking)} any more",
            cluster=client.cluster.alias,
            hint="Was it deleted meanwhile? Begin again.",
        )
    return [found[each.stored] for each in places]


def _spans(key: PartitionKey, offsets: Sequence[int]) -> list[OffsetRange]:
    """Return what to read for these offsets, which are sorted: those near one another together."""
    spans: list[OffsetRange] = []
    for offset in offsets:
        if spans and offset - spans[-1].offset_end < _NEAR:
            spans[-1] = spans[-1]._replace(offset_end=offset + 1)
        else:
            spans.append(OffsetRange(*key, offset, offset + 1))
    return spans


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
