"""Reads which records of the source are dead letters of a link."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection
from contextlib import aclosing
from typing import Final, NamedTuple

from isthmus.engine.batches.rebatch import Record, records_of
from isthmus.engine.mapped.letters import read_letter
from isthmus.errors import ClusterError
from isthmus.kafka.client import Client
from isthmus.kafka.log.offsets import log_ranges
from isthmus.kafka.log.reading import LogReader, OffsetRange, StoredBatch
from isthmus.model.links.deadletters import dead_letters_of
from isthmus.spark.compare.links.extent import ComparedRange


class SourceLetters(NamedTuple):
    """The places of the dead letters of a partition, source offset and leader epoch of each, in order; `unread` says
    why there may be others.
    """

    places: tuple[tuple[int, int], ...] = ()
    unread: str = ""

    def within(self, span: OffsetRange) -> frozenset[tuple[int, int]]:
        """Return the places in these offsets of the source."""
        begin, end = (bisect_left(self.places, (offset,)) for offset in (span.offset_begin, span.offset_end))
        return frozenset(self.places[begin:end])


NO_LETTERS: Final = SourceLetters()


async def read_letters(
    source: Client, target: Client, link: str | None, extents: Collection[ComparedRange]
) -> dict[ComparedRange, SourceLetters]:
    """Read the dead letters of a link's partitions. Where that fails, nobody can say which there are.

    :raises ClusterError: The source does not answer.
    """
    topics = (await source.metadata(sorted({each.source_topic for each in extents}))).topics
    found: dict[ComparedRange, SourceLetters] = {}
    for each in extents:
        key = dead_letters_of(link or "", each.target_topic), each.partition
        try:
            log = (await log_ranges(target, [key])).all()[key]
            places = set[tuple[int, int]]()
            async with aclosing(LogReader(target).read(OffsetRange(*key, log.start, log.stable_end))) as answers:
                async for answer in answers:
                    letters = (read_letter(record) for stored in answer for record in _committed(stored))
                    places |= {
                        letter.place
                        for letter in letters
                        if letter is not None and letter.topic_id == topics[each.source_topic].topic_id
                    }
        except ClusterError as error:
            found[each] = SourceLetters(unread=error.message)
            continue
        unread = ""
        if log.start > 0:
            unread = f"{key[0]} has lost its first letters"
        elif log.stable_end < log.end:
            unread = f"a transaction is open in {key[0]}"
        found[each] = SourceLetters(tuple(sorted(places)), unread)
    return found


def _committed(stored: StoredBatch) -> list[Record]:
    if stored.batch.is_control or stored.is_aborted:
        return []
    try:
        return records_of(stored.batch)
    except ValueError:
        # No letter of ours.
        return []
