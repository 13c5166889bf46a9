"""Leads records of a lease through Spark's SQL and back, within one Spark task.

    Python worker of the lease ──Unix socket──▶ Python worker that feeds ──▶ JVM: the projection ──▶ Python worker of
    the lease again, as the input of its function

So expressions are evaluated by Spark as they stand, while the lease keeps its lanes for its whole term: there is no
micro-batch that would have to find everything again. Spark hands rows on in batches of `ROWS_PER_BATCH`, so each chunk
is filled up to a multiple of that; otherwise it would wait for the next one.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import stat
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import pyarrow as pa
from pyspark import TaskContext

from isthmus.engine.mapped.transformer import Changed, Delayed, Failure, Portion, Transformer, TransformFailed
from isthmus.kafka.batches.records import header_key
from isthmus.model.links.transform import RecordPart
from isthmus.registry.lookup import SchemaBook
from isthmus.spark.formats.decoding import NOTHING_ASKED, Asked, NotNow, PartDecoder, Prepared, build_decoders
from isthmus.spark.formats.types import to_arrow
from isthmus.spark.transforms.editing import Editor, is_time
from isthmus.spark.transforms.expressions import ROWS_PER_BATCH, Compiled, decoded_name

_PRIMING_ROWS: Final = ROWS_PER_BATCH + 1
"""A batch, and a row more: Spark looks for the row behind a batch before it hands the batch on."""
_FILLER: Final = -1
_CONNECT_S: Final = 60.0
_PAUSE_S: Final = 0.01
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_PATH_BYTES: Final = 100
"""The longest path of a socket that all systems accept."""
_SHORT_FOLDER: Final = "/tmp"  # noqa: S108 - the folder in it is checked
_UTC: Final = pa.timestamp("us", tz="UTC")
_TYPES: Final[Mapping[str, pa.DataType]] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "headers": pa.map_(pa.string(), pa.binary()),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": _UTC,
    "timestampType": pa.int32(),
}


def feed_schema(compiled: Compiled) -> pa.Schema:
    """The schema of the rows that are fed, as `Compiled.fed_ddl` has it for Spark."""
    plain = ((f"_{name}", _TYPES[name]) for name in compiled.columns)
    decoded = ((name, to_arrow(columns.type)) for name, columns in compiled.decoded)
    return pa.schema([("_transform", pa.int32()), *plain, *decoded, ("_chunk", pa.int64())])


def socket_of(name: str) -> Path:
    """Return the path of the socket of a job's task, in a folder that only this user can enter (`prepare_folder`).

    An attempt that Spark makes again has another one: the first may still run.
    """
    context = TaskContext.get()
    own = Path(f"isthmus-{os.getuid()}", name if context is None else f"{name}-{context.taskAttemptId()}")
    found = Path(tempfile.gettempdir()) / own
    return found if len(os.fsencode(found)) <= _PATH_BYTES else Path(_SHORT_FOLDER) / own


def prepare_folder(folder: Path) -> None:
    """Make the folder of sockets, or require that it is ours.

    :raises PermissionError: Others made it, or may enter it: they could read records, or change them.
    """
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise PermissionError(f"{folder} is not a folder of this user alone: remove it")


def feed_rows(name: str, compiled: Compiled, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield what the lease of the same task sends: the function of the worker that feeds."""
    for _ in rows:
        pass
    # Spark starts the lease's worker together with its first input.
    yield _filler_rows(feed_schema(compiled))
    with socket.socket(socket.AF_UNIX) as line:
        until = time.monotonic() + _CONNECT_S
        while True:
            try:
                line.connect(str(socket_of(name)))
                break
            except OSError:
                if time.monotonic() >= until:
                    raise
                time.sleep(_PAUSE_S)
        with line.makefile("rb") as stream, pa.ipc.open_stream(stream) as batches:
            yield from batches


class _Asked(NamedTuple):
    """Rows that were sent: the first `records` of them are those of a chunk, the others fill it up."""

    chunk: int
    records: int
    rows: int
    future: asyncio.Future[list[bytes | None]]


class SqlPipe:
    """The lease's end of both ways. `rows` is the input of the lease's function: the results."""

    def __init__(self, name: str, compiled: Compiled, rows: Iterator[pa.RecordBatch]) -> None:
        self._compiled = compiled
        self._schema = feed_schema(compiled)
        self._rows = rows
        self._path = socket_of(name)
        self._asked: deque[_Asked] = deque()
        self._chunk = 0
        # In the order of rows, and in no thread that others need: a look-up of a name would wait for Spark.
        self._sender = ThreadPoolExecutor(1, thread_name_prefix="rows")
        self._failure: BaseException | None = None

    def __enter__(self) -> Self:
        prepare_folder(self._path.parent)
        self._path.unlink(missing_ok=True)
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(str(self._path))
        self._server.listen(1)
        self._line: socket.socket | None = None
        self._writer: Any = None
        self._receiver = threading.Thread(target=self._receive, name="results", daemon=True)
        self._receiver.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._sender.shutdown(cancel_futures=True)
        if self._writer is None:
            # The worker that feeds waits for its first row.
            self._open()
        self._writer.close()
        self._stream.close()
        if self._line is not None:
            self._line.close()
        # Spark reuses a worker that has read all of its input.
        self._receiver.join()
        self._server.close()
        self._path.unlink(missing_ok=True)

    def _open(self) -> None:
        self._server.settimeout(_CONNECT_S)
        self._line, _ = self._server.accept()
        self._stream = self._line.makefile("wb")
        self._writer = pa.ipc.new_stream(self._stream, self._schema)

    def build_transformers(self, prepared: Iterable[Prepared], book: SchemaBook | None) -> Mapping[str, Transformer]:
        """Build what changes records by expressions, by the digests of the transforms. Those of a link have the schemas
        of its source in its `book`.
        """
        compiled, wanted = self._compiled, set(prepared)
        found: dict[str, Transformer] = {
            each.transform.digest: RefusedTransformer(reason) for each, reason in compiled.refused if each in wanted
        }
        for number, each in enumerate(compiled.prepared):
            if each in wanted:
                found[each.transform.digest] = SqlTransformer(self, number, compiled, book)
        return found

    async def evaluate(
        self, transform: int, portion: Portion, decoded: Mapping[str, Sequence[Any]] | None = None
    ) -> list[bytes | None]:
        """Return the results of the records of a portion by a transform, by its number; `decoded` are its columns of
        parts that are decoded here.

        :raises TransformFailed: Spark has ended.
        """
        if self._failure is not None:
            raise TransformFailed(f"Spark evaluates no expressions any more: {self._failure}")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[list[bytes | None]] = loop.create_future()
        self._chunk = chunk = self._chunk + 1
        rows = await asyncio.to_thread(build_rows, self._schema, chunk, transform, portion, decoded)
        asked = _Asked(chunk, len(portion.records), rows.num_rows, future)
        await loop.run_in_executor(self._sender, self._send, rows, asked)
        return await future

    def _send(self, rows: pa.RecordBatch, asked: _Asked) -> None:
        if self._writer is None:
            self._open()
        self._asked.append(asked)
        if self._failure is not None:
            # The receiver may have ended before it saw this.
            _call(asked.future, _fail, self._failure)
            return
        self._writer.write_batch(rows)
        self._stream.flush()

    def _receive(self) -> None:
        """Match results to chunks: both have the same order, and results name their chunks."""
        results: list[bytes | None] = []
        chunks: list[int] = []
        needless = _PRIMING_ROWS
        try:
            for batch in self._rows:
                results += batch.column(0).to_pylist()
                chunks += batch.column(1).to_pylist()
                while True:
                    dropped = min(needless, len(results))
                    del results[:dropped], chunks[:dropped]
                    needless -= dropped
                    if needless or not self._asked or len(results) < self._asked[0].records:
                        break
                    first = self._asked[0]
                    if set(chunks[: first.records]) != {first.chunk}:
                        raise RuntimeError("results came that are of other records: this is a bug in Isthmus")
                    self._asked.popleft()
                    needless = first.rows
                    _call(first.future, _settle, results[: first.records])
        except BaseException as error:  # noqa: BLE001 - the lease reports it
            self._failure = error
        else:
            self._failure = self._failure or EOFError("there are no more results")
        for each in list(self._asked):
            _call(each.future, _fail, self._failure)
        # Spark reads what the lease returns only when all of this is read.
        with contextlib.suppress(Exception):
            for _ in self._rows:
                pass


def _call(future: asyncio.Future[list[bytes | None]], end: Callable[..., None], outcome: object) -> None:
    # A loop that is closed wants no answer any more.
    with contextlib.suppress(RuntimeError):
        future.get_loop().call_soon_threadsafe(end, future, outcome)


def _settle(future: asyncio.Future[list[bytes | None]], found: list[bytes | None]) -> None:
    if not future.done():
        future.set_result(found)


def _fail(future: asyncio.Future[list[bytes | None]], failure: BaseException) -> None:
    if not future.done():
        future.set_exception(TransformFailed(f"Spark evaluates no expressions any more: {failure}"))


def _filler_rows(schema: pa.Schema) -> pa.RecordBatch:
    """Build a batch without a record."""
    return pa.record_batch(
        [pa.array([_missing(field.name)] * _PRIMING_ROWS, field.type) for field in schema], schema=schema
    )


def _missing(name: str) -> int | None:
    return _FILLER if name in ("_chunk", "_transform") else None


def build_rows(
    schema: pa.Schema,
    chunk: int,
    transform: int,
    portion: Portion,
    decoded: Mapping[str, Sequence[Any]] | None = None,
) -> pa.RecordBatch:
    """Build the rows of a chunk, filled up to whole batches. Columns that are decoded for other transforms are NULL."""
    count = len(portion.records)
    # At least one: the last row waits for the next chunk.
    filler = -(count + 1) % ROWS_PER_BATCH + 1
    known: dict[str, Sequence[Any]] = {"_chunk": [chunk] * count, "_transform": [transform] * count, **(decoded or {})}
    arrays = []
    for field in schema:
        found = known.get(field.name)
        if found is None:
            found = row_values(field.name[1:], portion) if field.name[1:] in _TYPES else [None] * count
        arrays.append(pa.array([*found, *[_missing(field.name)] * filler], field.type))
    return pa.record_batch(arrays, schema=schema)


def build_columns(names: Sequence[str], portion: Portion) -> dict[str, pa.Array]:
    """Build the columns of a portion that are fed, by their names there."""
    return {f"_{name}": pa.array(row_values(name, portion), _TYPES[name]) for name in names}


def row_values(column: str, portion: Portion) -> Sequence[Any]:
    """Return the values of a column for the records of a portion; timestamps in UTC."""
    lane, records, are_appended = portion
    if column == "topic":
        return [lane.source_topic] * len(records)
    if column == "partition":
        return [lane.partition] * len(records)
    if column == "timestampType":
        return list(map(int, are_appended))
    if column == "headers":
        # Of equal names the last one counts; a name that is no text can only be read as one with other characters.
        named = ({header_key(name).decode(errors="replace"): held for name, held in each.headers} for each in records)
        return [list(each.items()) for each in named]
    if column == "timestamp":
        # Records without a time that Spark knows fail, if their transform reads it (`Editor`).
        times = [each.timestamp if is_time(each.timestamp) else None for each in records]
        return [None if each is None else _EPOCH + timedelta(milliseconds=each) for each in times]
    return [getattr(record, column) for record in records]


class RefusedTransformer:
    """Stands for expressions that Spark does not understand: their lanes stop, and tell why."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    async def change(self, portion: Portion) -> Sequence[Changed]:
        """Change nothing.

        :raises TransformFailed: Always.
        """
        raise TransformFailed(self._reason)


class SqlTransformer:
    """Changes records by expressions of Spark SQL. The `book` has the schemas of parts that are decoded by them."""

    def __init__(self, pipe: SqlPipe, number: int, compiled: Compiled, book: SchemaBook | None) -> None:
        self._pipe = pipe
        self._number = number
        self._book = book
        prepared, kinds, reads_time = compiled.prepared[number], compiled.kinds[number], compiled.timed[number]
        self._decoders = build_decoders(prepared)
        self._editor = Editor(prepared.transform, kinds, self._decoders, reads_time=reads_time)

    async def change(self, portion: Portion) -> Sequence[Changed]:
        """Return what becomes of each record.

        :raises TransformFailed: Spark has ended.
        """
        found = await self._decode(portion) if self._decoders else None
        results = await self._pipe.evaluate(self._number, portion, None if found is None else found.columns)
        return await asyncio.to_thread(self._edit, portion, results, {} if found is None else found.outcomes)

    async def _decode(self, portion: Portion) -> DecodedParts:
        if self._book is None:
            raise TransformFailed("the source has no schema registry")
        asked = await ask_for_schemas(self._decoders, portion, self._book)
        return await asyncio.to_thread(decode_parts, self._number, self._decoders, portion, asked)

    def _edit(
        self, portion: Portion, results: Sequence[bytes | None], outcomes: Mapping[int, Changed]
    ) -> list[Changed]:
        edit = self._editor.edit
        pairs = enumerate(zip(portion.records, results, strict=True))
        return [outcomes[place] if place in outcomes else edit(*each) for place, each in pairs]


class DecodedParts(NamedTuple):
    """The columns of parts that are decoded, by their names, and the outcomes of records that are not, by place."""

    columns: Mapping[str, Sequence[Any]]
    outcomes: Mapping[int, Failure | Delayed]


async def ask_for_schemas(
    decoders: Mapping[RecordPart, PartDecoder], portion: Portion, book: SchemaBook
) -> dict[RecordPart, Asked]:
    """Have decoders learn the schemas of records, as far as the registry answers; return what it says of the others."""
    return {
        part: await decoder.prepare((getattr(record, part) for record in portion.records), book)
        for part, decoder in decoders.items()
    }


def decode_parts(
    number: int, decoders: Mapping[RecordPart, PartDecoder], portion: Portion, asked: Mapping[RecordPart, Asked]
) -> DecodedParts:
    """Decode parts for a transform, by its number; `asked` is what its decoders were told of these records."""
    columns: dict[str, Sequence[Any]] = {}
    outcomes: dict[int, Failure | Delayed] = {}
    for part, decoder in decoders.items():
        values: list[Any] = []
        told = asked.get(part, NOTHING_ASKED)
        for place, record in enumerate(portion.records):
            value = None
            try:
                value = decoder.read(getattr(record, part), told)
            except NotNow as error:
                outcomes[place] = Delayed(f"its {part}: {error}")
            except MemoryError:
                # No fault of the record.
                raise
            except Exception as error:  # noqa: BLE001 - its policy decides about it, and others go on
                outcomes.setdefault(place, Failure(record, f"its {part} cannot be decoded: {error}"))
            values.append(value)
        columns[decoded_name(part, number)] = values
    return DecodedParts(columns, outcomes)
