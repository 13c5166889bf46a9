"""What Spark's tasks do with slices whose records were changed: make them again by the transform, and compare.

    Python functions    one step: read the source, call the function, compare with the target
    expressions         three: read the source and feed its records ─▶ Spark's projection ─▶ compare with the target

Records stay in their order within a task, so that each slice is compared as it comes (`CopyChecker`).
"""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa

from isthmus.engine.batches.rebatch import Record, records_of
from isthmus.engine.mapped.reworking import Original, portions
from isthmus.engine.mapped.transformer import Changed, Portion, TransformFailed, build_portion
from isthmus.kafka.batches.batch import Batch
from isthmus.kafka.log.reading import OffsetRange, unreadable_error
from isthmus.kafka.log.spans import spans_of
from isthmus.model.cluster import Cluster
from isthmus.model.links.transform import Transform
from isthmus.spark.compare.links.changed import (
    ChangedFindings,
    ChangedSlice,
    CopyChecker,
    MissingRecord,
    is_same_outcome,
)
from isthmus.spark.compare.projection import Projection
from isthmus.spark.logs import Logs
from isthmus.spark.rows import bytes_digest
from isthmus.spark.transforms.calls import Calls
from isthmus.spark.transforms.editing import Editor
from isthmus.spark.transforms.expressions import Compiled
from isthmus.spark.transforms.pipe import build_columns, feed_schema
from isthmus.spark.transforms.python import PythonTransformer

FINDINGS_DDL: Final = "slice INT, findings BINARY"
MISSING_DDL: Final = "slice INT, offset BIGINT, key_digest BINARY, is_tombstone BOOLEAN"
CARRIED: Final = ("_slice", "_origin")
"""Columns that pass the projection: the slice that begins there, and a record as the source has it."""
_END: Final = b""
_MISSING: Final = pa.schema(
    [("slice", pa.int32()), ("offset", pa.int64()), ("key_digest", pa.binary()), ("is_tombstone", pa.bool_())]
)
_FINDINGS: Final = pa.schema([("slice", pa.int32()), ("findings", pa.binary())])
_READ_BYTES: Final = 1 << 20
_READ_RECORDS: Final = 10_000
"""So much is read before it is passed on, as stored at the source; or one batch."""
_ASKED_AGAIN_MAX: Final = 3
_NO_TRANSFORM: Final = -1


class SourceSlice:
    """The committed records of a slice at the source, in portions as a transform gets them. What was read is counted:
    `size_bytes`, and `aborted` records. In a compacted log the offsets of these are `aborted_spans`.
    """

    def __init__(self, logs: Logs, part: ChangedSlice) -> None:
        self.size_bytes = self.aborted = 0
        self.aborted_spans = deque[tuple[int, int]]()
        self._logs, self._part = logs, part

    def __iter__(self) -> Iterator[Sequence[Original]]:
        part, span = self._part, self._part.source
        read: list[Original] = []
        from_bytes = 0
        for found in self._logs.read(part.source_alias, span) if not span.is_empty else ():
            for batch, is_aborted in found:
                if batch.offset_end <= span.offset_end:
                    self.size_bytes += batch.size_bytes
                if batch.is_control:
                    continue
                if is_aborted:
                    self.aborted += max(span.records_of(batch), 0)
                    if part.compacted:
                        self.aborted_spans.append((batch.base_offset, batch.offset_end))
                    continue
                read += [
                    Original(each, batch.leader_epoch, batch.codec, batch.is_log_append_time)
                    for each in _decode(part.source_alias, span, batch)
                    if span.offset_begin <= each.offset < span.offset_end
                ]
                from_bytes += batch.size_bytes
                if from_bytes > _READ_BYTES or len(read) >= _READ_RECORDS:
                    yield from portions(read)
                    read, from_bytes = [], 0
        yield from portions(read)


class TargetSlice:
    """The copies of a slice at the target, in their order, with the source's offsets; `size_bytes` counts what was
    read.
    """

    def __init__(self, logs: Logs, part: ChangedSlice) -> None:
        self.size_bytes = 0
        self._logs, self._part = logs, part

    def __iter__(self) -> Iterator[Record]:
        part = self._part
        projection = Projection(part.ranges)
        for span in spans_of(part.target, part.ranges):
            for found in self._logs.read(part.target_alias, span):
                for batch, is_aborted in found:
                    self.size_bytes += batch.size_bytes
                    if batch.is_control or is_aborted or not projection.extent(batch.base_offset, batch.offset_end):
                        continue
                    yield from _project(_decode(part.target_alias, span, batch), span, projection)


def _decode(alias: str, span: OffsetRange, batch: Batch) -> list[Record]:
    try:
        return records_of(batch)
    except ValueError as error:
        raise unreadable_error(alias, f"offset {batch.base_offset} of {span}", error) from error


def _project(records: Sequence[Record], span: OffsetRange, projection: Projection) -> Iterator[Record]:
    is_inside, sources = projection.sources(np.array([each.offset for each in records], np.int64))
    for record, inside, source in zip(records, is_inside.tolist(), sources.tolist(), strict=True):
        if inside and span.offset_begin <= record.offset < span.offset_end:
            yield record._replace(offset=source)


class CheckRows:
    """The rows that a task returns: the findings of each slice, or (`lists_missing`) each record that the target
    lacks.
    """

    def __init__(self, *, lists_missing: bool) -> None:
        self.lists_missing = lists_missing

    @property
    def ddl(self) -> str:
        return MISSING_DDL if self.lists_missing else FINDINGS_DDL

    def take(self, part: ChangedSlice, checker: CopyChecker) -> Iterator[pa.RecordBatch]:
        """Yield what a checker has found by now."""
        found, checker.missing = checker.missing, []
        if self.lists_missing and found:
            yield _missing_rows(part.number, found)

    def conclude(self, part: ChangedSlice, found: ChangedFindings) -> Iterator[pa.RecordBatch]:
        """Yield the findings of a slice."""
        if not self.lists_missing:
            yield pa.record_batch([pa.array([part.number], pa.int32()), [pickle.dumps(found)]], schema=_FINDINGS)


def _missing_rows(number: int, found: Sequence[MissingRecord]) -> pa.RecordBatch:
    columns = [
        [number] * len(found),
        [each.offset for each in found],
        [bytes_digest(each.key) for each in found],
        [each.is_tombstone for each in found],
    ]
    arrays = [pa.array(values, kind) for values, kind in zip(columns, _MISSING.types, strict=True)]
    return pa.record_batch(arrays, schema=_MISSING)


def read_findings(rows: Iterable[tuple[int, bytes]]) -> dict[int, ChangedFindings]:
    """Return the findings that tasks returned, by slice."""
    return {number: pickle.loads(found) for number, found in rows}  # noqa: S301 - written by our own tasks


def _slices_of(rows: Iterable[pa.RecordBatch]) -> Iterator[ChangedSlice]:
    """Yield the slices of a task: rows of one column, each with some of them."""
    for batch in rows:
        for some in batch.column(0).to_pylist():
            yield from pickle.loads(some)  # noqa: S301 - written by our own driver


# Python functions


def check_by_functions(
    clusters: Mapping[str, Cluster],
    transforms: Mapping[str, Transform],
    results: CheckRows,
    rows: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Compare slices whose records Python functions changed: the function of a task."""
    makers = {digest: Remaker(each) for digest, each in transforms.items()}
    with Logs(clusters) as logs:
        for part in _slices_of(rows):
            yield from check_by_function(logs, part, makers[part.transform], results)


class Remaker:
    """Calls the function of a transform. Once it could not be applied at all it is not called again: `failure`."""

    def __init__(self, transform: Transform) -> None:
        if transform.python is None:
            raise ValueError(f"{transform.digest} is no function")
        self._transformer = PythonTransformer(transform.python, Calls())

    failure = ""

    def make(self, part: ChangedSlice, origins: Sequence[Original]) -> list[Changed]:
        """Make records again.

        :raises TransformFailed: The function cannot be loaded, or cannot work now.
        """
        if self.failure:
            raise TransformFailed(self.failure)
        try:
            return self._transformer.change_now(portion_of(part, origins))
        except TransformFailed as error:
            self.failure = str(error)
            raise

    def is_steady(self, part: ChangedSlice, origin: Original, made: Changed) -> bool:
        """Whether the function decides the same about a record when it is called again. A call that fails says nothing
        of that.
        """
        try:
            (again,) = self._transformer.change_now(portion_of(part, [origin]))
        except TransformFailed:
            return True
        return is_same_outcome(made, again)


def check_by_function(logs: Logs, part: ChangedSlice, maker: Remaker, results: CheckRows) -> Iterator[pa.RecordBatch]:
    """Compare one slice. From where the function cannot be applied the rest is not compared."""
    source, target = SourceSlice(logs, part), TargetSlice(logs, part)
    checker = CopyChecker(part, iter(target), source.aborted_spans)
    asked_again, failure = 0, ""
    try:
        for origins in source:
            for origin, made in zip(origins, maker.make(part, origins), strict=True):
                kind = checker.take(origin.record.offset, origin.epoch, made)
                if kind is not None and asked_again < _ASKED_AGAIN_MAX:
                    asked_again += 1
                    if not maker.is_steady(part, origin, made):
                        checker.note_unsteady(origin.record.offset)
            yield from results.take(part, checker)
    except TransformFailed as error:
        failure = f"the transform cannot be applied: {error}"
    found = checker.finish(failure)
    yield from results.take(part, checker)
    yield from results.conclude(part, _count(found, source.aborted, source.size_bytes, target.size_bytes))


def _count(found: ChangedFindings, aborted: int, size_bytes: int, target_bytes: int) -> ChangedFindings:
    return replace(found, aborted=aborted, size_bytes=size_bytes, read_bytes=size_bytes + target_bytes)


def portion_of(part: ChangedSlice, origins: Sequence[Original]) -> Portion:
    """Return records as a transform gets them on their way."""
    records, are_appended = [each.record for each in origins], [each.is_appended for each in origins]
    return build_portion(part.source.topic, part.source.partition, part.transform, records, are_appended)


# Expressions


def feed_slices(
    clusters: Mapping[str, Cluster], compiled: Compiled, rows: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield the records of slices as the projection takes them, each slice between two rows without a record: `_slice`
    has the slice in the first, and nothing in the last, where `_origin` has what was read. That of the first record of
    a call has the spans of aborted records that were read by then.
    """
    places = {each.digest: place for place, each in enumerate(compiled.transforms)}
    schema = _feed_schema(compiled)
    with Logs(clusters) as logs:
        for part in _slices_of(rows):
            yield _row(schema, _slice=pickle.dumps(part))
            source = SourceSlice(logs, part)
            for origins in source:
                count = len(origins)
                known = {
                    **build_columns(compiled.columns, portion_of(part, origins)),
                    "_transform": pa.array([places[part.transform]] * count, pa.int32()),
                    "_origin": pa.array(_carry(origins, source.aborted_spans), pa.binary()),
                }
                arrays = [known.get(field.name, pa.nulls(count, field.type)) for field in schema]
                yield pa.record_batch(arrays, schema=schema)
            figures = source.aborted, source.size_bytes, list(source.aborted_spans)
            yield _row(schema, _slice=_END, _origin=pickle.dumps(figures))


def _carry(origins: Sequence[Original], aborted_spans: deque[tuple[int, int]]) -> list[bytes]:
    """Return what is carried past the projection with records: what they are, and what was aborted, which is taken."""
    spans = [list(aborted_spans), *[[]] * (len(origins) - 1)]
    aborted_spans.clear()
    carried = zip(origins, spans, strict=True)
    return [pickle.dumps((tuple(each.record), each.epoch, aborted)) for each, aborted in carried]


def feed_ddl(compiled: Compiled) -> str:
    """The columns of the rows that `feed_slices` yields."""
    return f"{compiled.fed_ddl}, _slice BINARY, _origin BINARY"


def _feed_schema(compiled: Compiled) -> pa.Schema:
    schema = feed_schema(compiled)
    for name in CARRIED:
        schema = schema.append(pa.field(name, pa.binary()))
    return schema


def _row(schema: pa.Schema, **held: bytes) -> pa.RecordBatch:
    """Build a row of no record."""
    known = {"_transform": _NO_TRANSFORM, **held}
    return pa.record_batch([pa.array([known.get(field.name)], field.type) for field in schema], schema=schema)


def check_results(
    clusters: Mapping[str, Cluster], compiled: Compiled, results: CheckRows, rows: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Compare slices whose records came out of the projection, with the columns `_result` and `CARRIED`: the function
    of a task.
    """
    editors = {
        each.digest: Editor(each, compiled.kinds[place], reads_time=compiled.timed[place])
        for place, each in enumerate(compiled.transforms)
    }
    checking: _Checking | None = None
    with Logs(clusters) as logs:
        for batch in rows:
            for result, part, origin in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                if part:
                    checking = _Checking(logs, pickle.loads(part), editors)  # noqa: S301 - of our own task
                elif checking is None:
                    raise RuntimeError("a record came before its slice: this is a bug in Isthmus")
                elif part is None:
                    checking.take(origin, result)
                else:
                    found = checking.finish(origin)
                    # The next slice may begin in the same batch.
                    yield from results.take(checking.part, checking.checker)
                    yield from results.conclude(checking.part, found)
            if checking is not None:
                yield from results.take(checking.part, checking.checker)


class _Checking:
    """The comparison of one slice, record by record as they come out of the projection."""

    def __init__(self, logs: Logs, part: ChangedSlice, editors: Mapping[str, Editor]) -> None:
        self.part = part
        self._edit = editors[part.transform].edit
        self._target = TargetSlice(logs, part)
        self._aborted_spans = deque[tuple[int, int]]()
        self.checker = CopyChecker(part, iter(self._target), self._aborted_spans)

    def take(self, origin: bytes, result: bytes | None) -> None:
        fields, epoch, aborted = pickle.loads(origin)  # noqa: S301 - of our own task
        record = Record(*fields)
        self._aborted_spans.extend(aborted)
        self.checker.take(record.offset, epoch, self._edit(record, result))

    def finish(self, figures: bytes) -> ChangedFindings:
        aborted, size_bytes, spans = pickle.loads(figures)  # noqa: S301 - of our own task
        self._aborted_spans.extend(spans)
        return _count(self.checker.finish(), aborted, size_bytes, self._target.size_bytes)
