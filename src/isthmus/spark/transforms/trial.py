"""Expressions of a transform tried on some records, with Spark's own message for each that fails."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from isthmus.engine.mapped.transformer import Changed, Failure, Portion
from isthmus.model.links.transform import RecordPart, RecordPath
from isthmus.spark.formats.decoding import Asked, PartDecoder, Prepared
from isthmus.spark.transforms.editing import Editor, has_path
from isthmus.spark.transforms.expressions import (
    Compiled,
    active_session_kept,
    compile_transforms,
    decode_rows,
    describe_error,
    expression_session,
    named_expressions,
    paths_named,
    project,
)
from isthmus.spark.transforms.pipe import DecodedParts, build_rows, decode_parts, feed_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Trial(NamedTuple):
    """What becomes of the records of each portion, and the fields and headers that no record has."""

    outcomes: Sequence[Sequence[Changed]]
    unfound: Sequence[RecordPath] = ()


def try_expressions(
    spark: SparkSession,
    prepared: Prepared,
    portions: Sequence[Portion],
    decoders: Mapping[RecordPart, PartDecoder],
    asked: Mapping[RecordPart, Asked] = MappingProxyType({}),
) -> Trial:
    """Try a transform on records, for which decoders are prepared and were told what was `asked`. Fields of schemas are
    not looked for.

    :raises ConfigError: Spark does not understand an expression.
    """
    with active_session_kept(spark):
        return _try(spark, prepared, portions, decoders, asked)


def _try(
    spark: SparkSession,
    prepared: Prepared,
    portions: Sequence[Portion],
    decoders: Mapping[RecordPart, PartDecoder],
    asked: Mapping[RecordPart, Asked],
) -> Trial:
    session = expression_session(spark)
    compiled = compile_transforms(session, [prepared])
    editor = Editor(prepared.transform, compiled.kinds[0], decoders, reads_time=compiled.timed[0])
    tried: list[list[Changed]] = []
    for portion in portions:
        decoded = decode_parts(0, decoders, portion, asked)
        rows = _rows(compiled, portion, decoded)
        frame = session.createDataFrame(rows, compiled.fed_ddl)
        results = [row[0] for row in project(session, frame, compiled).collect()]
        outcomes: list[Changed] = []
        for place, (record, result) in enumerate(zip(portion.records, results, strict=True)):
            found = decoded.outcomes.get(place) or editor.edit(record, _to_bytes(result))
            if isinstance(found, Failure) and place not in decoded.outcomes:
                found = found._replace(reason=_explain(session, compiled, rows[place]) or found.reason)
            outcomes.append(found)
        tried.append(outcomes)
    records = [record for portion in portions for record in portion.records]
    paths = paths_named(session, prepared.transform) if records else []
    looked_for = [path for path in paths if path.part not in decoders]
    return Trial(tried, [path for path in looked_for if not any(has_path(record, path) for record in records)])


def _to_bytes(result: bytearray | bytes | None) -> bytes | None:
    return None if result is None else bytes(result)


def _rows(compiled: Compiled, portion: Portion, decoded: DecodedParts) -> list[tuple[object, ...]]:
    fed = build_rows(feed_schema(compiled), 0, 0, portion, decoded.columns).slice(0, len(portion.records))
    return [tuple(each.values()) for each in fed.to_pylist(maps_as_pydicts="strict")]


def _explain(spark: SparkSession, compiled: Compiled, row: tuple[object, ...]) -> str:
    """Return the message of the first expression that fails for a row, "" if none does by itself."""
    (prepared,) = compiled.prepared
    decoded = decode_rows(spark, spark.createDataFrame([row], compiled.fed_ddl), prepared, 0)
    for name, expression in named_expressions(prepared.transform):
        try:
            decoded.selectExpr(f"(\n{expression}\n) AS result").collect()
        except Exception as error:  # noqa: BLE001 - whatever Spark raises is the answer
            return f"{name}: {describe_error(error)}"
    return ""
