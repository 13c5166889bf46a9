"""Expressions of a transform tried on some records, with Spark's own message for each that fails."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from isthmus.engine.mapped.transformer import Changed, Failure, Portion
from isthmus.model.links.transform import Transform
from isthmus.spark.transforms.editing import Editor
from isthmus.spark.transforms.expressions import (
    Compiled,
    compile_transforms,
    decode_rows,
    describe_error,
    expression_session,
    named_expressions,
    project,
)
from isthmus.spark.transforms.pipe import row_values

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def try_expressions(spark: SparkSession, transform: Transform, portions: Sequence[Portion]) -> list[list[Changed]]:
    """Return what becomes of the records of each portion.

    :raises ConfigError: Spark does not understand an expression.
    """
    session = expression_session(spark)
    compiled = compile_transforms(session, [transform])
    editor = Editor(transform, compiled.kinds[0], reads_time=compiled.timed[0])
    tried: list[list[Changed]] = []
    for portion in portions:
        rows = list(_rows(compiled, portion))
        frame = session.createDataFrame(rows, compiled.fed_ddl)
        results = [row[0] for row in project(session, frame, compiled).collect()]
        outcomes = [editor.edit(*each) for each in zip(portion.records, map(_to_bytes, results), strict=True)]
        tried.append(
            [
                each._replace(reason=_explain(session, compiled, row) or each.reason)
                if isinstance(each, Failure)
                else each
                for each, row in zip(outcomes, rows, strict=True)
            ]
        )
    return tried


def _to_bytes(result: bytearray | bytes | None) -> bytes | None:
    return None if result is None else bytes(result)


def _rows(compiled: Compiled, portion: Portion) -> Iterator[tuple[object, ...]]:
    columns = [row_values(name, portion) for name in compiled.columns]
    for number in range(len(portion.records)):
        yield (0, *(column[number] for column in columns), number)


def _explain(spark: SparkSession, compiled: Compiled, row: tuple[object, ...]) -> str:
    """Return the message of the first expression that fails for a row, "" if none does by itself."""
    (transform,) = compiled.transforms
    decoded = decode_rows(spark, spark.createDataFrame([row], compiled.fed_ddl), transform)
    for name, expression in named_expressions(transform):
        try:
            decoded.selectExpr(f"(\n{expression}\n) AS result").collect()
        except Exception as error:  # noqa: BLE001 - whatever Spark raises is the answer
            return f"{name}: {describe_error(error)}"
    return ""
