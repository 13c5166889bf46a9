"""Reads logs of dead letters from their ends, in spans of some MiB."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from isthmus.engine.batches.rebatch import records_of
from isthmus.engine.mapped.letters import Letter, read_letter
from isthmus.kafka.batches.aborted import COMMIT, control_type
from isthmus.kafka.batches.batch import Batch
from isthmus.kafka.client import Client
from isthmus.kafka.log.listoffsets import READ_UNCOMMITTED
from isthmus.kafka.log.reading import LogReader, OffsetRange
from isthmus.model.kafka.log import LogRange

SPAN_BYTES: Final = 4 << 20
FIRST_OFFSETS: Final = 64
_GROWTH: Final = 16
_STALL_S: Final = 5.0


async def read_back(target: Client, key: tuple[str, int], log: LogRange) -> AsyncGenerator[Letter, None]:
    """Yield the committed letters in a log, the last one first; those of transactions that are open are none. Their
    records have no key, no value and no headers.

    :raises ClusterError: It cannot be read now.
    """
    reader, ended = LogReader(target, isolation=READ_UNCOMMITTED, stall_s=_STALL_S), dict[int, bool]()
    end, offsets = log.end, FIRST_OFFSETS
    while end > log.start:
        span = OffsetRange(*key, max(end - offsets, log.start), end)
        found, size = SpanLetters(span, ended), 0
        async with aclosing(reader.read(span)) as answers:
            async for answer in answers:
                size += sum(each.batch.size_bytes for each in answer)
                for each in answer:
                    found.take(each.batch)
        for letter in reversed(found.finish()):
            yield letter
        end, offsets = span.offset_begin, next_offsets(end - span.offset_begin, size)


def next_offsets(offsets: int, size_bytes: int) -> int:
    """Return how many offsets to read next, where the last ones had so many bytes: markers of transactions are a
    thousand times smaller than letters may be.
    """
    return max(min(offsets * _GROWTH, offsets * SPAN_BYTES // max(size_bytes, 1)), FIRST_OFFSETS)


class SpanLetters:
    """The committed letters of a span, of which batches are taken in order. `ended` are the producers whose next
    transaction behind it has ended, and whether it was committed; after `finish` this is so of what follows before it.
    """

    def __init__(self, span: OffsetRange, ended: dict[int, bool]) -> None:
        self._span, self._behind, self._ends = span, ended, dict[int, bool]()
        self._found: list[Letter] = []
        self._open = defaultdict[int, list[int]](list)
        self._committed: set[int] = set()

    def take(self, batch: Batch) -> None:
        """Take the next batch. One that cannot be read holds no letter of ours."""
        producer, span = batch.producer_id, self._span
        if batch.is_control:
            is_committed = control_type(batch) == COMMIT
            self._ends.setdefault(producer, is_committed)
            ended = self._open.pop(producer, [])
            self._committed.update(ended if is_committed else ())
            return
        with contextlib.suppress(ValueError):
            for record in records_of(batch):
                letter = read_letter(record) if span.offset_begin <= record.offset < span.offset_end else None
                if letter is not None:
                    place = len(self._found)
                    self._found.append(letter._replace(record=letter.record._replace(key=None, value=None, headers=[])))
                    if batch.is_transactional:
                        self._open[producer].append(place)
                    else:
                        self._committed.add(place)

    def finish(self) -> list[Letter]:
        """Return the letters in order."""
        for producer, places in self._open.items():
            self._committed.update(places if self._behind.get(producer, False) else ())
        self._behind.update(self._ends)
        return [letter for place, letter in enumerate(self._found) if place in self._committed]
