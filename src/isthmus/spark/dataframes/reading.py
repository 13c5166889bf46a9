"""What a task of the data source reads: ranges of logs, as rows in Arrow."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Self

from pyspark.sql.datasource import InputPartition

from isthmus.errors import BrokerRefused, ClusterError
from isthmus.kafka import codes
from isthmus.kafka.log.listoffsets import READ_COMMITTED
from isthmus.kafka.log.reading import OffsetRange
from isthmus.model.cluster import Cluster
from isthmus.spark.dataframes.columns import ABORTED, columns_named
from isthmus.spark.dataframes.hints import showing_hints
from isthmus.spark.dataframes.planning import lost_records
from isthmus.spark.dataframes.selection import ReadSettings
from isthmus.spark.logs import Logs
from isthmus.spark.ranges import NumberedRange
from isthmus.spark.rows import RowOrigin, Rows

if TYPE_CHECKING:
    import pyarrow as pa

SILENCE_S: Final = 120.0
"""For how long brokers may be silent before a query fails."""
_GONE: Final = frozenset({codes.UNKNOWN_TOPIC_OR_PARTITION, codes.UNKNOWN_TOPIC_ID})


@dataclass(frozen=True)
class RangeGroup(InputPartition):
    """The ranges that one task reads, in this order, and the ids of their topics where these are known."""

    ranges: tuple[NumberedRange, ...]
    ids: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class RowReader:
    """Reads groups of ranges in tasks: Spark pickles it. Its clusters have passwords, which do not show in its `repr`.

    Records of aborted transactions are left out in mode `records`, unless the names of columns have `is_aborted`.
    """

    clusters: Mapping[str, Cluster] = field(repr=False)
    mode: str
    names: tuple[str, ...]
    isolation: int = READ_COMMITTED
    fails_on_loss: bool = False

    @classmethod
    def of(cls, cluster: Cluster, settings: ReadSettings, names: Iterable[str]) -> Self:
        """Build what reads these columns of one cluster."""
        return cls(
            clusters={cluster.alias: cluster},
            mode=settings.mode,
            names=tuple(names),
            isolation=settings.isolation,
            fails_on_loss=settings.fails_on_loss,
        )

    def read(self, group: RangeGroup) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a group.

        :raises ClusterError: A cluster cannot be read, or records were deleted while they were, with `fails_on_loss`.
        """
        rows = Rows(columns_named(self.mode, self.names), self.names)
        logs = Logs(self.clusters, isolation=self.isolation, topic_ids=_parse(group.ids), stall_s=SILENCE_S)
        with showing_hints(), logs:
            for numbered in group.ranges:
                yield from self._read(logs, rows, numbered)
            if self.fails_on_loss:
                _require_whole(logs, group)

    def _read(self, logs: Logs, rows: Rows, numbered: NumberedRange) -> Iterator[pa.RecordBatch]:
        number, alias, span = numbered
        origin = RowOrigin(alias, number, span)
        is_by_record = self.mode == "records"
        make = rows.of_records if is_by_record else rows.of_batches
        keeps_aborted = not is_by_record or ABORTED in map(str.lower, self.names)
        try:
            for found in logs.read(alias, span):
                yield from make(found if keeps_aborted else [each for each in found if not each.is_aborted], origin)
        except ClusterError as error:
            if self.fails_on_loss or not (_is_gone(error) or logs.is_recreated(alias, span.topic)):
                raise
            print(f"isthmus: went on without {span}, as failOnDataLoss is false: {error}", file=sys.stderr)  # noqa: T201


def _is_gone(error: ClusterError) -> bool:
    return isinstance(error, BrokerRefused) and error.code in _GONE


def _parse(ids: Mapping[str, str]) -> dict[str, uuid.UUID]:
    return {topic: uuid.UUID(text) for topic, text in ids.items() if text}


def _require_whole(logs: Logs, group: RangeGroup) -> None:
    """See that no range lost its beginning until now: so nothing was deleted before it was read.

    :raises ClusterError: One did, or the start of a log cannot be read.
    """
    for alias in {alias for _, alias, _ in group.ranges}:
        spans = [span for _, other, span in group.ranges if other == alias]
        starts = logs.starts(alias, [span.key for span in spans])
        for span in spans:
            if starts[span.key] > span.offset_begin:
                raise lost_records(OffsetRange(*span.key, span.offset_begin, min(starts[span.key], span.offset_end)))
