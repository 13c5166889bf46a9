"""Reads logs as DataFrames: what is there when the query is planned."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceReader, InputPartition

from isthmus.errors import ClusterError
from isthmus.kafka.client import Client
from isthmus.kafka.log.reading import LogReader, OffsetRange
from isthmus.kafka.log.slices import slices
from isthmus.kafka.log.timestamps import offsets_by_time
from isthmus.kafka.session import ClientSession
from isthmus.model.cluster import Cluster
from isthmus.spark.dataframes.hints import showing_hints
from isthmus.spark.dataframes.narrowing import Narrowing, conditions_of
from isthmus.spark.dataframes.planning import lost_records
from isthmus.spark.dataframes.reading import RangeGroup, RowReader
from isthmus.spark.dataframes.selection import ReadSettings
from isthmus.spark.dataframes.survey import Survey, readable_end, resolve, survey
from isthmus.spark.ranges import NumberedRange, group_ranges

if TYPE_CHECKING:
    import pyarrow as pa

_NO_MATCH: Final = -1


class PushedFilters:
    """Takes the filters of a query as the method `pushFilters` of a reader, and leaves all of them to Spark as well.

    Spark refuses to run a reader that overrides this method while `spark.sql.python.filterPushdown.enabled` is false,
    which is its default. It looks for the function of the method to find out: that is shown as the one of its own.
    """

    __func__ = staticmethod(getattr(DataSourceReader, "pushFilters", None) or (lambda _reader, filters: filters))

    def __init__(self) -> None:
        self.narrowing = Narrowing()

    def __call__(self, filters: list[Any]) -> Iterable[Any]:
        self.narrowing = Narrowing(tuple(conditions_of(filters)))
        return filters


class RangesReader(DataSourceReader):
    """Reads the ranges that the option `ranges` has, each of a registered cluster."""

    def __init__(self, clusters: Mapping[str, Cluster], mode: str, names: Sequence[str], ranges: str) -> None:
        self._rows = RowReader(clusters=dict(clusters), mode=mode, names=tuple(names))
        self._ranges = ranges

    def partitions(self) -> list[InputPartition]:
        groups = json.loads(self._ranges)
        return [
            RangeGroup(tuple((number, alias, OffsetRange(*span)) for number, alias, *span in group)) for group in groups
        ] or [RangeGroup(())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RangeGroup)  # noqa: S101  # Spark gives back what it was given
        return self._rows.read(partition)


class LogSourceReader(DataSourceReader):
    """Plans groups of ranges in Spark's planning process and reads them in its tasks."""

    def __init__(self, cluster: Cluster, settings: ReadSettings, names: Sequence[str]) -> None:
        self._cluster = cluster
        self._settings = settings
        self._rows = RowReader.of(cluster, settings, names)
        self._pushed = PushedFilters()
        vars(self)["pushFilters"] = self._pushed

    @showing_hints()
    def partitions(self) -> list[InputPartition]:
        planned: list[InputPartition] = list(asyncio.run(self._plan()))
        # Spark reads an empty plan as one partition without a value; ours has no ranges.
        return planned or [RangeGroup(())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RangeGroup)  # noqa: S101  # Spark gives back what it was given
        return self._rows.read(partition)

    async def _plan(self) -> list[RangeGroup]:
        async with ClientSession() as session:
            client = session.client(self._cluster)
            found = await survey(client, self._settings.subscription)
            spans = await self._narrow(client, await self._spans(client, found))
            cut = await slices(LogReader(client, isolation=self._settings.isolation, topic_ids=found.uuids), spans)
        parts = [part for parts in cut for part in parts]
        numbered: list[tuple[NumberedRange, int]] = [
            ((number, self._cluster.alias, part.span), part.size_bytes) for number, part in enumerate(parts)
        ]
        return [
            RangeGroup(tuple(group), {span.topic: found.ids[span.topic] for _, _, span in group})
            for group in group_ranges(numbered)
        ]

    async def _spans(self, client: Client, found: Survey) -> list[OffsetRange]:
        """Find what the options select of the logs.

        :raises ClusterError: Records that they name are not there, unless failOnDataLoss is false.
        """
        settings, isolation = self._settings, self._settings.isolation
        late = settings.latest_if_late
        begins = await resolve(client, settings.starting, found.logs, isolation=isolation, latest_if_late=late)
        ends = await resolve(client, settings.ending, found.logs, isolation=isolation, latest_if_late=True)
        spans: list[OffsetRange] = []
        for key in sorted(found.logs):
            start, end = found.logs[key].start, readable_end(found.logs[key], isolation)
            # What is as late as a time may have come since, or be in an open transaction.
            begin = min(begins[key], end) if settings.starting.is_time else begins[key]
            stop = min(ends[key], end) if settings.ending.is_time else ends[key]
            if settings.fails_on_loss and begin < start:
                raise lost_records(OffsetRange(*key, begin, start))
            if settings.fails_on_loss and max(begin, stop) > end:
                raise ClusterError(
                    f"{key[0]}-{key[1]} of {self._cluster.alias} ends at {end}, before an offset that the options name",
                    hint="Name an offset up to there, or set failOnDataLoss to false to read what there is. Records "
                    "behind an open transaction can be read once it ends.",
                )
            spans.append(OffsetRange(*key, max(begin, start), min(stop, end)))
        return [span for span in spans if not span.is_empty]

    async def _narrow(self, client: Client, spans: list[OffsetRange]) -> list[OffsetRange]:
        """Leave out what cannot meet the conditions of the query."""
        narrowing = self._pushed.narrowing
        spans = [narrowing.narrow(span) for span in spans if narrowing.may_hold(span.topic, span.partition)]
        since_ms = narrowing.since_ms
        if since_ms is not None and since_ms > 0:
            # All records before the first one that is as late are earlier.
            found = await offsets_by_time(client, {span.key: since_ms for span in spans})
            spans = [
                span._replace(offset_begin=max(span.offset_begin, found[span.key]))
                for span in spans
                if found[span.key] != _NO_MATCH
            ]
        return [span for span in spans if not span.is_empty]
