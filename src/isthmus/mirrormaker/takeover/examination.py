"""Examine one partition: find what MirrorMaker 2 has copied, by its position and by the target's log."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from isthmus.engine.batches.rebatch import Record, records_of
from isthmus.errors import ClusterError
from isthmus.kafka.client import Client
from isthmus.kafka.log.reading import LogReader, OffsetRange
from isthmus.kafka.log.timestamps import offsets_by_time, record_timestamps
from isthmus.mirrormaker.alignment import Aligned, Alignment, Circumstances, SourceRecord
from isthmus.mirrormaker.takeover.plan import Outcome, PartitionTakeover
from isthmus.model.kafka.log import LogRange
from isthmus.model.lane import Gap
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.problem import Problem
from isthmus.model.text.wording import format_count

LOOK_BACK: Final = 1_000
"""The offsets before MirrorMaker 2's position to compare at first; more where that does not explain all."""
_WIDER: Final = 16
_DIGEST_BYTES: Final = 16
_EXCLUDE: Final = (
    "The topic stays paused. If those are not wanted, delete the target topic: then isthmus resume LINK --topic TOPIC "
    "has all of it copied again. Or name it to topics.exclude."
)
_OTHER_TIMES: Final = Problem(
    "the target topic has message.timestamp.type=LogAppendTime: records have other timestamps there, so nothing shows "
    "which of them are copies",
    "Set message.timestamp.type=CreateTime, delete the target topic and have it copied again: isthmus resume LINK "
    "--topic TOPIC. Or name the topic to topics.exclude.",
)
_NOT_THERE: Final = -1
OnRead = Callable[[int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class BothLogs:
    """A partition on both sides, with its logs while the target stands still. `committed` is the next offset by
    MirrorMaker 2's positions, -1 for none. A target that stamps records itself `has_other_times`.
    """

    source_topic: SourceTopic
    target_topic: TargetTopic
    partition: int
    source: LogRange
    target: LogRange
    committed: int = _NOT_THERE
    is_source_compacted: bool = False
    is_target_compacted: bool = False
    has_other_times: bool = False


class Examiner:
    """Examines partitions. With `is_whole` the whole target is compared, otherwise its end.

    If the flow `begins_late`, records before its first one were not to be copied.
    """

    def __init__(
        self,
        source: Client,
        target: Client,
        *,
        is_whole: bool,
        allows_foreign: bool,
        begins_late: bool = False,
        on_read: OnRead,
    ) -> None:
        self._source, self._target = source, target
        self._readers = LogReader(source), LogReader(target)
        self._is_whole, self._allows_foreign, self._begins_late = is_whole, allows_foreign, begins_late
        self._on_read = on_read

    async def examine(self, pair: BothLogs) -> PartitionTakeover:
        """Decide whether the partition can be taken over, and from where.

        :raises ClusterError: One of its logs cannot be read.
        """
        source, target, committed = pair.source, pair.target, pair.committed
        if target.end == 0 and committed >= 0:
            return _refuse(pair, contradiction(f"{pair.target_topic}-{pair.partition} never held a record", committed))
        if committed < 0 and target.start == target.end:
            if target.end > 0 and source.start < source.end:
                return _refuse(pair, _unknown_problem(pair))
            return PartitionTakeover(partition=pair.partition, outcome=Outcome.NEW, committed=committed)
        if pair.has_other_times:
            return _refuse(pair, _OTHER_TIMES)
        if committed > source.end:
            return _refuse(pair, _shorter_problem(pair))
        if committed > source.stable_end:
            return _refuse(pair, _open_problem(source))
        found = await self._compare(pair)
        problem = self._problem(pair, found)
        if problem is not None:
            return _refuse(pair, problem, found)
        begin, gap = found.begin, None
        if 0 <= committed < source.start and not found.ranges:
            gap, begin = Gap(committed, source.start), source.start
        return PartitionTakeover(
            partition=pair.partition,
            outcome=Outcome.TAKEN_OVER,
            committed=committed,
            begin=max(begin, source.start),
            target_end=target.end,
            found=found,
            gap=gap,
        )

    def _problem(self, pair: BothLogs, found: Aligned) -> Problem | None:
        if found.missing:
            return Problem(
                f"the target lacks {format_count(found.missing, 'record')} that MirrorMaker 2 reports as copied, the "
                f"first from source offset {found.first_missing}: it filtered or changed them, the target lost them, "
                "or the source topic was created again since",
                _EXCLUDE,
            )
        if self._begins_late and _holds_nothing(pair, found):
            return Problem(
                f"MirrorMaker 2 reports that it has copied up to source offset {pair.committed}, and the target has "
                "no record "
                "of the source: that topic was created again since, or MirrorMaker 2 changed the records",
                _EXCLUDE,
            )
        if found.foreign and pair.source.stable_end < pair.source.end:
            return _open_problem(pair.source)
        if found.foreign and not self._allows_foreign:
            at = ", ".join(map(str, found.foreign_at))
            return Problem(
                f"{format_count(found.foreign, 'record')} at the end of the target come from no record of the source, "
                f"the first at target offset {at}: another producer writes there, MirrorMaker 2 changed them, or the "
                "source has lost them",
                "If others write there, --allow-foreign passes these over. Else the copy cannot be gone on with: "
                + _EXCLUDE,
            )
        return None

    async def _compare(self, pair: BothLogs) -> Aligned:
        """Compare from a little before the position on, and from earlier while that does not explain everything."""
        look_back = LOOK_BACK
        while True:
            is_all = self._is_whole or pair.committed - look_back <= pair.source.start
            begins = (
                await self._find_begins_of_all(pair)
                if is_all
                else await self._find_begins_by_time(pair, pair.committed - look_back)
            )
            if begins is not None:
                found = await self._align(pair, *begins)
                if found.is_sound or is_all:
                    return found
            look_back *= _WIDER

    async def _find_begins_of_all(self, pair: BothLogs) -> tuple[int, int]:
        """Return the begins on both sides of a comparison with all that the source has."""
        if self._is_whole or pair.source.start == 0 or pair.is_target_compacted:
            return pair.source.start, pair.target.start
        # Records before the first copy of the source's first record were deleted at the source.
        here, there = (pair.source_topic, pair.partition), (pair.target_topic, pair.partition)
        stamps = await record_timestamps(self._source, {here: pair.source.start}, {here: pair.source})
        if here not in stamps:
            return pair.source.start, pair.target.end if pair.source.start == pair.source.end else pair.target.start
        found = (await offsets_by_time(self._target, {there: stamps[here]}))[there]
        return pair.source.start, pair.target.end if found < 0 else found

    async def _find_begins_by_time(self, pair: BothLogs, offset: int) -> tuple[int, int] | None:
        """Return the begins on both sides of records as new as the one at a source offset; `None` if that is behind the
        position.

        The first record of the target with such a timestamp is a copy of the first one of the source: first copies
        are in the order of the source, and they keep their timestamps.
        """
        here, there = (pair.source_topic, pair.partition), (pair.target_topic, pair.partition)
        stamps = await record_timestamps(self._source, {here: offset}, {here: pair.source})
        if here not in stamps:
            return None
        begin = (await offsets_by_time(self._source, stamps))[here]
        if not pair.source.start <= begin < pair.committed:
            return None
        found = (await offsets_by_time(self._target, {there: stamps[here]}))[there]
        return begin, pair.target.end if found < 0 else found

    async def _align(self, pair: BothLogs, source_begin: int, target_begin: int) -> Aligned:
        source, target = pair.source, pair.target
        alignment = Alignment(
            Circumstances(
                claimed=max(pair.committed, 0),
                source_begin=source_begin,
                target_lost_beginning=(target.start > 0 or self._begins_late) and target_begin <= target.start,
                source_lost_beginning=source.start > 0 and source_begin == source.start,
                is_source_compacted=pair.is_source_compacted,
                is_target_compacted=pair.is_target_compacted,
            )
        )
        at_source = OffsetRange(pair.source_topic, pair.partition, source_begin, source.stable_end)
        at_target = OffsetRange(pair.target_topic, pair.partition, target_begin, target.stable_end)
        async with (
            aclosing(_records(self._readers[0], at_source, self._source.cluster.alias)) as there,
            aclosing(_records(self._readers[1], at_target, self._target.cluster.alias)) as here,
        ):

            def key_of(one: Record) -> bytes:
                return digest_of(one.key) if pair.is_target_compacted and one.key is not None else b""

            def to_source_record(one: Record, is_aborted: bool) -> SourceRecord:
                return SourceRecord(one.offset, digest(one), is_aborted, key_of(one), one.value is None)

            async def feed() -> None:
                async for records, is_aborted in there:
                    alignment.feed(to_source_record(one, is_aborted) for one in records)
                    return
                alignment.source_ended()

            async for records, is_aborted in here:
                for one in () if is_aborted else records:
                    while alignment.is_hungry:
                        await feed()
                    alignment.take(one.offset, digest(one), key_of(one))
                self._on_read(len(records))
            while alignment.lacks_claimed:
                await feed()
        return alignment.result()


async def _records(reader: LogReader, span: OffsetRange, alias: str) -> AsyncGenerator[tuple[list[Record], bool], None]:
    """Read the records of a range, batch by batch, and whether they were aborted.

    :raises ClusterError: They cannot be read or decoded.
    """
    if span.is_empty:
        return
    async with aclosing(reader.read(span)) as answers:
        async for stored in answers:
            for batch, is_aborted in stored:
                if batch.is_control:
                    continue
                try:
                    found = records_of(batch)
                except ValueError as error:
                    raise ClusterError(
                        f"{alias}: {span} cannot be compared: {error}",
                        cluster=alias,
                        hint="Check the broker's disk: kafka-dump-log --deep-iteration names the batch.",
                    ) from error
                yield [one for one in found if span.offset_begin <= one.offset < span.offset_end], is_aborted


def digest(record: Record) -> bytes:
    """Return the digest of a record without its offset."""
    hashed = blake2b(b"%d" % record.timestamp, digest_size=_DIGEST_BYTES)
    parts = [record.key, record.value]
    for name, value in record.headers:
        parts += [name.encode("utf-8", "surrogateescape"), value]
    for part in parts:
        # The length before each part keeps the concatenation unambiguous.
        hashed.update(b"-" if part is None else b"|%d|" % len(part))
        hashed.update(part or b"")
    return hashed.digest()


def digest_of(key: bytes) -> bytes:
    """Return the digest of a key."""
    return blake2b(key, digest_size=_DIGEST_BYTES).digest()


def _holds_nothing(pair: BothLogs, found: Aligned) -> bool:
    """Whether a target that has deleted nothing has only foreign records, though the source still has some that were
    copied: if a flow began late it is unknown which, but the last one is among them.
    """
    is_cleaned = pair.is_source_compacted or pair.is_target_compacted
    has_copies = bool(found.ranges or found.aborted)
    is_kept = pair.target.start == 0 and pair.committed > pair.source.start
    return bool(found.foreign) and is_kept and not (is_cleaned or has_copies)


def _refuse(pair: BothLogs, problem: Problem, found: Aligned | None = None) -> PartitionTakeover:
    return PartitionTakeover(
        partition=pair.partition,
        outcome=Outcome.REFUSED,
        committed=pair.committed,
        target_end=pair.target.end,
        found=found,
        problem=problem,
    )


def contradiction(found: str, committed: int) -> Problem:
    """Build the problem that what MirrorMaker 2 says it has copied is not in the topic that the link's naming gives."""
    return Problem(
        f"MirrorMaker 2 reports that it has copied everything before source offset {committed}, and {found}: it "
        "named the "
        "topic otherwise, or its copy was deleted",
        "Compare topics.naming with the names at the target (isthmus cluster topics), correct it, and call this again. "
        "If the copy was deleted, isthmus resume LINK --topic TOPIC has all of it copied again.",
    )


def _shorter_problem(pair: BothLogs) -> Problem:
    return Problem(
        f"the source ends at {pair.source.end}, before MirrorMaker 2's position {pair.committed}: it lost records, or "
        "the topic was deleted and created again",
        _EXCLUDE,
    )


def _unknown_problem(pair: BothLogs) -> Problem:
    return Problem(
        f"the target held {pair.target_topic}-{pair.partition} up to offset {pair.target.end} and has deleted all of "
        "it, and MirrorMaker 2 has no position of it any more: it is unknown which records it had copied",
        "isthmus resume LINK --topic TOPIC copies all that the source has. Or name the topic to topics.exclude.",
    )


def _open_problem(source: LogRange) -> Problem:
    return Problem(
        f"a transaction is open at the source from offset {source.stable_end} on, and MirrorMaker 2 may have copied "
        "records of it",
        "Call this again when it has ended; isthmus cluster describe shows who holds it open.",
    )
