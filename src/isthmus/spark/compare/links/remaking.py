"""What Spark's tasks do with slices whose records were changed: make them again by the transform, and compare.

    Python functions    one step: read the source, call the function, compare with the target
    expressions         three: read the source and feed its records ─▶ Spark's projection ─▶ compare with the target

Records stay in their order within a task, so that each slice is compared as it comes (`CopyChecker`).
"""

from __future__ import annotations

import asyncio
import pickle
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Self

import numpy as np
import pyarrow as pa

from isthmus.engine.batches.rebatch import Record, records_of
from isthmus.engine.mapped.reworking import Original, portions
from isthmus.engine.mapped.transformer import Changed, Portion, TransformFailed, build_portion
from isthmus.kafka.batches.batch import Batch
from isthmus.kafka.log.reading import OffsetRange, unreadable_error
from isthmus.kafka.log.spans import spans_of
from isthmus.model.cluster import Cluster
from isthmus.model.links.transform import RecordPart, Transform
from isthmus.registry.lookup import SchemaBook, WriterSchema, registry_of
from isthmus.spark.compare.links.changed import (
    ChangedFindings,
    ChangedSlice,
    CopyChecker,
    MissingRecord,
    is_same_outcome,
)
from isthmus.spark.compare.projection import Projection
from isthmus.spark.formats.decoding import Asked, PartDecoder, build_decoders
from isthmus.spark.logs import Logs
from isthmus.spark.rows import bytes_digest
from isthmus.spark.transforms.calls import Calls
from isthmus.spark.transforms.editing import Editor
from isthmus.spark.transforms.expressions import Compiled
from isthmus.spark.transforms.pipe import DecodedParts, ask_for_schemas, build_columns, decode_parts, feed_schema
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
_DENIED: Final = "the registry does not have it, or not any more"


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
    with Logs(clusters) as logs, SliceDecoder(clusters, compiled) as decoder:
        for part in _slices_of(rows):
            yield _row(schema, _slice=pickle.dumps(part))
            source, place = SourceSlice(logs, part), places[part.transform]
            for origins in source:
                count, portion = len(origins), portion_of(part, origins)
                decoded = decoder.decode(place, part.source_alias, portion)
                carried = _carry(origins, source.aborted_spans, decoded.outcomes, decoder.take_learned(place))
                known = {
                    **build_columns(compiled.columns, portion),
                    "_transform": pa.array([place] * count, pa.int32()),
                    "_origin": pa.array(carried, pa.binary()),
                }
                arrays = [
                    pa.array(decoded.columns[field.name], field.type)
                    if field.name in decoded.columns
                    else known.get(field.name, pa.nulls(count, field.type))
                    for field in schema
                ]
                yield pa.record_batch(arrays, schema=schema)
            figures = source.aborted, source.size_bytes, list(source.aborted_spans)
            yield _row(schema, _slice=_END, _origin=pickle.dumps(figures))


class SliceDecoder:
    """Decodes parts of records by the schemas of their source's registry, for all transforms of a task. Enter it."""

    def __init__(self, clusters: Mapping[str, Cluster], compiled: Compiled) -> None:
        self._clusters = clusters
        self._decoders = [build_decoders(each) for each in compiled.prepared]
        self._sent: list[dict[RecordPart, set[int]]] = [{part: set() for part in each} for each in self._decoders]
        self._books: dict[str, SchemaBook] = {}
        self._runner = asyncio.Runner()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for book in self._books.values():
            self._runner.run(book.aclose())
        self._runner.close()

    def decode(self, place: int, alias: str, portion: Portion) -> DecodedParts:
        """Decode records of a cluster for a transform, by its place."""
        decoders = self._decoders[place]
        if not decoders:
            return DecodedParts({}, {})
        if alias not in self._books:
            self._books[alias] = SchemaBook(registry_of(self._clusters[alias]))
        asked = self._runner.run(ask_for_schemas(decoders, portion, self._books[alias]))
        # What a denial means depends on how long one asks, and on when the record was copied.
        unknown = {
            part: Asked(waiting={**each.waiting, **dict.fromkeys(each.denied, _DENIED)}) for part, each in asked.items()
        }
        return decode_parts(place, decoders, portion, unknown)

    def take_learned(self, place: int) -> dict[RecordPart, dict[int, WriterSchema]]:
        """Return the schemas that a transform's decoders have learned since this was asked last."""
        new: dict[RecordPart, dict[int, WriterSchema]] = {}
        for part, decoder in self._decoders[place].items():
            sent = self._sent[place][part]
            new[part] = {one: each for one, each in decoder.learned.items() if one not in sent}
            sent.update(new[part])
        return new


class _Carried(NamedTuple):
    """What is carried past the projection with a record: the record, its leader epoch, what was aborted before it, what
    became of it if it was not decoded, and schemas that are new.
    """

    record: tuple[Any, ...]
    epoch: int
    aborted: Sequence[tuple[int, int]] = ()
    outcome: Changed = None
    learned: Mapping[RecordPart, Mapping[int, WriterSchema]] = MappingProxyType({})


def _carry(
    origins: Sequence[Original],
    aborted_spans: deque[tuple[int, int]],
    outcomes: Mapping[int, Changed],
    learned: Mapping[RecordPart, Mapping[int, WriterSchema]],
) -> list[bytes]:
    """Return what is carried with records. The first one has what was aborted, which is taken, and what is new."""
    aborted, new = list(aborted_spans), {part: dict(each) for part, each in learned.items() if each}
    aborted_spans.clear()
    carried: list[bytes] = []
    for place, each in enumerate(origins):
        one = _Carried(tuple(each.record), each.epoch, outcome=outcomes.get(place))
        # As a plain tuple: there are many.
        carried.append(pickle.dumps(tuple(one._replace(aborted=aborted, learned=new) if not place else one[:4])))
    return carried


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
    decoders = [build_decoders(each) for each in compiled.prepared]
    editors = {
        each.digest: (Editor(each, compiled.kinds[place], decoders[place], reads_time=compiled.timed[place]), place)
        for place, each in enumerate(compiled.transforms)
    }
    checking: _Checking | None = None
    with Logs(clusters) as logs:
        for batch in rows:
            for result, part, origin in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                if part:
                    found_part: ChangedSlice = pickle.loads(part)  # noqa: S301 - of our own task
                    editor, place = editors[found_part.transform]
                    checking = _Checking(logs, found_part, editor, decoders[place])
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

    def __init__(
        self, logs: Logs, part: ChangedSlice, editor: Editor, decoders: Mapping[RecordPart, PartDecoder]
    ) -> None:
        self.part = part
        self._edit, self._decoders = editor.edit, decoders
        self._target = TargetSlice(logs, part)
        self._aborted_spans = deque[tuple[int, int]]()
        self.checker = CopyChecker(part, iter(self._target), self._aborted_spans)

    def take(self, origin: bytes, result: bytes | None) -> None:
        carried = _Carried(*pickle.loads(origin))  # noqa: S301 - of our own task
        record = Record(*carried.record)
        self._aborted_spans.extend(carried.aborted)
        for part, found in carried.learned.items():
            self._decoders[part].learn(found)
        made = self._edit(record, result) if carried.outcome is None else carried.outcome
        self.checker.take(record.offset, carried.epoch, made)

    def finish(self, figures: bytes) -> ChangedFindings:
        aborted, size_bytes, spans = pickle.loads(figures)  # noqa: S301 - of our own task
        self._aborted_spans.extend(spans)
        return _count(self.checker.finish(), aborted, size_bytes, self._target.size_bytes)
