"""Reads which records of the source are dead letters of a link."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection
from typing import Final, NamedTuple

from isthmus.engine.mapped.letterlog import read_back
from isthmus.errors import ClusterError
from isthmus.kafka.client import Client
from isthmus.kafka.log.offsets import log_ranges
from isthmus.kafka.log.reading import OffsetRange
from isthmus.model.kafka.log import LogRange
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

    :raises ClusterError: A cluster does not answer.
    """
    topics = (await source.metadata(sorted({each.source_topic for each in extents}))).topics
    copies = (await target.metadata(sorted({each.target_topic for each in extents}))).topics
    keys = {each: (dead_letters_of(link or "", each.target_topic), each.partition) for each in extents}
    logs = await log_ranges(target, set(keys.values()))
    found: dict[ComparedRange, SourceLetters] = {}
    for each, key in keys.items():
        if key in logs.errors:
            found[each] = SourceLetters(unread=logs.errors[key].message)
            continue
        try:
            letters = [letter async for letter in read_back(target, key, logs.values[key])]
        except ClusterError as error:
            found[each] = SourceLetters(unread=error.message)
            continue
        ids = topics[each.source_topic].topic_id, copies[each.target_topic].topic_id
        places = sorted({one.place for one in letters if (one.topic_id, one.target_id) == ids})
        gap = _find_gap(key[0], logs.values[key], lacks=_count_written(each) - len(places))
        found[each] = SourceLetters(tuple(places), gap)
    return found


def _count_written(extent: ComparedRange) -> int:
    """Return how many letters the lane of a partition has written at least, 0 if that is unknown: an earlier transform
    may have skipped records without letters, and the count has these too.
    """
    is_only_one = len({each.transform for each in extent.transforms if each.transform}) == 1
    return extent.lane.cursor.skipped if is_only_one and extent.lane is not None else 0


def _find_gap(topic: str, log: LogRange, *, lacks: int) -> str:
    """Return why a log may lack letters, "" if it has all; the lane left out more records (`lacks`) than there are."""
    if lacks > 0:
        return f"{topic} has {lacks} letters fewer than its lane had records that failed: it was deleted since"
    if log.start > 0:
        return f"{topic} has lost its first letters"
    if log.stable_end < log.end:
        return f"a transaction is open in {topic}"
    return ""
