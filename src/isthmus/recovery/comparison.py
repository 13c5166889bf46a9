"""Both logs of a partition read side by side, up to where they first differ."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial

from isthmus.engine.batches.rebatch import Record, records_of
from isthmus.errors import ClusterError
from isthmus.kafka.batches.batch import CODEC_MASK, LOG_APPEND_TIME, RECORDS_BEGIN, Batch
from isthmus.kafka.client import Client
from isthmus.kafka.log.listoffsets import READ_COMMITTED, READ_UNCOMMITTED
from isthmus.kafka.log.reading import LogReader, OffsetRange
from isthmus.mirrormaker.takeover.examination import digest
from isthmus.model.kafka.log import LogRange
from isthmus.model.links.needs import Side
from isthmus.model.links.recovery import DivergedPartition
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.recovery.divergence import LogStretch, SeenRecord, last_shared

_ATTRIBUTES_IN_TOKEN = CODEC_MASK | LOG_APPEND_TIME


async def compare_partition(
    source: Client,
    target: Client,
    topics: tuple[SourceTopic, TargetTopic],
    partition: int,
    logs: tuple[LogRange, LogRange],
    *,
    is_compacted: bool,
) -> DivergedPartition:
    """Return how far a partition is the same at both sides; topics and logs are the source's and the target's.

    :raises ClusterError: One of the logs cannot be read.
    """
    here, there = logs
    begin, end, decided = max(here.start, there.start), min(here.stable_end, there.end), there.end
    if there.stable_end < there.end and there.stable_end <= here.stable_end:
        # A lane that copies whole transactions copies open ones too. They may have ended at the source since.
        end, decided = min(here.end, there.end), there.stable_end
    shared = end
    if begin < end:
        spans = (OffsetRange(topics[0], partition, begin, end), OffsetRange(topics[1], partition, begin, end))
        async with (
            aclosing(_stretches(source, spans[0], decided)) as first,
            aclosing(_stretches(target, spans[1], decided)) as second,
        ):
            shared = await _search({Side.SOURCE: first, Side.TARGET: second}, begin, end, is_compacted=is_compacted)
    return DivergedPartition(
        partition=partition,
        source_begin=here.start,
        source_end=here.stable_end,
        target_begin=there.start,
        target_end=there.end,
        shared=shared,
    )


async def _search(
    logs: dict[Side, AsyncGenerator[LogStretch, None]], begin: int, end: int, *, is_compacted: bool
) -> int:
    search = last_shared(begin, end, is_compacted=is_compacted)
    try:
        side = next(search)
        while True:
            side = search.send(await anext(logs[side], None))
    except StopIteration as found:
        return int(found.value)


async def _stretches(client: Client, span: OffsetRange, decided: int) -> AsyncGenerator[LogStretch, None]:
    """Yield committed records before the offset up to which all is `decided`, and all records from there on."""
    decided = min(max(decided, span.offset_begin), span.offset_end)
    for part, isolation in (
        (span._replace(offset_end=decided), READ_COMMITTED),
        (span._replace(offset_begin=decided), READ_UNCOMMITTED),
    ):
        async with aclosing(LogReader(client, isolation=isolation).read(part)) as answers:
            async for stored in answers:
                for batch, is_aborted in stored:
                    # A batch that lies in both parts was yielded with the first.
                    is_repeated = span.offset_begin < part.offset_begin and batch.base_offset < part.offset_begin
                    if not (batch.is_control or is_aborted or is_repeated):
                        yield _stretch(client, batch, span)


def _stretch(client: Client, batch: Batch, span: OffsetRange) -> LogStretch:
    return LogStretch(
        offset_begin=batch.base_offset,
        offset_end=batch.offset_end,
        token=_token(batch),
        records=partial(_digest_records, batch, client.cluster.alias, span),
    )


def _token(batch: Batch) -> tuple[int, int, int, int, bytes]:
    """Return all of a batch that determines its records, without its producer and its transaction."""
    attributes = batch.attributes & _ATTRIBUTES_IN_TOKEN
    return batch.magic, attributes, batch.base_timestamp, batch.max_timestamp, bytes(batch.view[RECORDS_BEGIN:])


def _digest_records(batch: Batch, alias: str, span: OffsetRange) -> list[SeenRecord]:
    return [SeenRecord(record.offset, digest(record)) for record in decode_records(batch, alias, span)]


def decode_records(batch: Batch, alias: str, span: OffsetRange) -> list[Record]:
    """Return the records of a batch that lie in a range.

    :raises ClusterError: They cannot be decoded.
    """
    try:
        return [one for one in records_of(batch) if span.offset_begin <= one.offset < span.offset_end]
    except ValueError as error:
        raise ClusterError(
            f"{alias}: {span} cannot be read: {error}",
            cluster=alias,
            hint="Check the broker's disk: kafka-dump-log --deep-iteration names the batch.",
        ) from error
