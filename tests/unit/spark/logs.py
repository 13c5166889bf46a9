"""Logs of two clusters, as a comparison counts them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, cast

from isthmus.kafka.batches.batch import Batch, scan
from isthmus.kafka.log.reading import OffsetRange, StoredBatch
from isthmus.spark.logs import Logs
from testing.records.stored import PLAIN, Given, stored

IS_EQUAL: Final = 4


class Written:
    """Logs that hold these batches, aborted ones marked."""

    def __init__(self, logs: Mapping[str, Sequence[StoredBatch]]) -> None:
        self._logs = logs

    def read(self, alias: str, span: OffsetRange) -> Iterator[list[StoredBatch]]:
        """An answer for each batch of the range."""
        for item in self._logs[alias]:
            if item.batch.offset_end > span.offset_begin and item.batch.base_offset < span.offset_end:
                yield [item]


def batch(offset: int, records: Sequence[Given] = (PLAIN,), codec: int = 0) -> Batch:
    return next(scan(stored(offset, records, codec=codec)))


def committed(*batches: Batch) -> list[StoredBatch]:
    return [StoredBatch(each, is_aborted=False) for each in batches]


def logs(source: Sequence[StoredBatch], target: Sequence[StoredBatch]) -> Logs:
    return cast(Logs, Written({"east": source, "west": target}))
