"""Rows on their way to Spark's SQL and back: what records may hold, and whose results come."""

from __future__ import annotations

import asyncio
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pyarrow as pa
import pytest

from isthmus.engine.batches.rebatch import Record
from isthmus.engine.mapped.transformer import Failure, Portion, TransformFailed
from isthmus.model.links.transform import RecordFormat, RecordPart, Transform
from isthmus.spark.formats.decoding import DecodedColumns, Prepared
from isthmus.spark.formats.types import FieldType, ReadFields
from isthmus.spark.transforms import pipe
from isthmus.spark.transforms.expressions import Compiled
from isthmus.spark.transforms.pipe import SqlPipe, build_rows, decode_parts, feed_schema, prepare_folder, socket_of
from testing.values.leases import lane

COMPILED = Compiled((), ("offset",), ())


def portion(*timestamps: int) -> Portion:
    records = [Record(place, each, None, None, []) for place, each in enumerate(timestamps)]
    return Portion(lane(0), records, [False] * len(records))


def results(chunk: int, count: int) -> pa.RecordBatch:
    """What Spark returns for rows of a chunk."""
    values = [b"%d" % place for place in range(count)]
    return pa.record_batch(
        [pa.array(values, pa.binary()), pa.array([chunk] * count, pa.int64())], ["_result", "_chunk"]
    )


def test_a_timestamp_that_is_no_time_is_missing() -> None:
    """Kafka takes any number; one such record must not keep all others of its lane."""
    given = portion(-1, 1_700_000_000_000, 2**62, -(2**62))
    rows = build_rows(feed_schema(Compiled((), ("timestamp",), ())), 1, 0, given)
    assert [each is None for each in rows.column("_timestamp").to_pylist()[:4]] == [False, False, True, True]


def test_a_map_of_bytes_is_no_map_of_headers() -> None:
    """Both have the same type for Spark."""
    kind = FieldType("MAP", (("element", FieldType("BINARY")),))
    prepared = Prepared(Transform(), value=DecodedColumns(RecordFormat.AVRO, ReadFields(), kind))
    compiled = Compiled((prepared,), ("headers",), ())
    given = portion(0, 0)
    given.records[0] = given.records[0]._replace(headers=[("a", b"1"), ("a", b"2")])
    rows = build_rows(feed_schema(compiled), 1, 0, given, {"_value0": [[("k", b"v")], None]})
    assert rows.column("_value0").to_pylist()[:2] == [[("k", b"v")], None]
    assert rows.column("_headers").to_pylist()[:2] == [[("a", b"2")], []]


class Broken:
    """Decodes and edits nothing."""

    def read(self, data: bytes | None, *_: object) -> object:
        if data == b"good":
            return {}
        raise OverflowError("it does not fit")


def test_whatever_is_raised_for_a_record_is_its_failure() -> None:
    """The policy decides about it alone, and those before and behind it go on."""
    given = portion(0, 0, 0)
    for place, value in enumerate((b"good", b"bad", b"good")):
        given.records[place] = given.records[place]._replace(value=value)
    decoders: Any = {RecordPart.VALUE: Broken()}
    found = decode_parts(0, decoders, given, {})
    assert found.columns == {"_value0": [{}, None, {}]}
    assert found.outcomes == {1: Failure(given.records[1], "its value cannot be decoded: it does not fit")}


def test_the_path_of_a_socket_is_short(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Systems take some hundred bytes, and folders for temporary files may be deep (containers of YARN)."""
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path / ("d" * 200)))
    assert len(str(socket_of("a" * 32))) <= 100


def test_a_folder_that_others_may_enter_is_refused(tmp_path: Path) -> None:
    """They could take the place of the socket."""
    folder = tmp_path / "sockets"
    prepare_folder(folder)
    prepare_folder(folder)
    folder.chmod(0o777)
    with pytest.raises(PermissionError, match="this user alone"):
        prepare_folder(folder)


def test_results_of_other_records_are_nobodys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record must never get what was made of another."""
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    queue: SimpleQueue[pa.RecordBatch | None] = SimpleQueue()

    def rows() -> Iterator[pa.RecordBatch]:
        while (each := queue.get()) is not None:
            yield each

    async def scenario(spark: SqlPipe) -> None:
        queue.put(results(-1, 513))
        asking = asyncio.create_task(spark.evaluate(0, portion(1, 2)))
        while not spark._asked:
            await asyncio.sleep(0.01)
        queue.put(results(7, 512))
        with pytest.raises(TransformFailed, match="other records"):
            await asking

    with SqlPipe("job", COMPILED, rows()) as spark:
        feeding = pipe.feed_rows("job", COMPILED, iter(()))
        next(feeding)
        threading.Thread(target=lambda: list(feeding), daemon=True).start()
        try:
            asyncio.run(scenario(spark))
        finally:
            queue.put(None)


def test_rows_that_spark_does_not_take_hold_up_no_look_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names are looked up in the threads of the event loop, of which there are few: clients would not connect."""
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    queue: SimpleQueue[pa.RecordBatch | None] = SimpleQueue()

    async def scenario(spark: SqlPipe) -> list[asyncio.Task[list[bytes | None]]]:
        asking = [asyncio.create_task(spark.evaluate(0, portion(1))) for _ in range(100)]
        while spark._chunk < len(asking):
            await asyncio.sleep(0.01)
        # Nobody takes the first rows yet.
        assert await asyncio.get_running_loop().getaddrinfo("localhost", 9092)
        assert not any(each.done() for each in asking)
        return asking

    with SqlPipe("job", COMPILED, iter(queue.get, None)) as spark:
        feeding = pipe.feed_rows("job", COMPILED, iter(()))
        next(feeding)
        try:
            asyncio.run(scenario(spark))
        finally:
            threading.Thread(target=lambda: list(feeding), daemon=True).start()
            queue.put(None)
