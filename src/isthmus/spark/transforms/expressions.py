"""Compiles transforms to one projection of Spark SQL, in which each row is a record of one of them.

    rows of records ─▶ for each transform: decode key and value, evaluate where and set ─▶ one JSON text for each row

Rows come out as they went in: a record that is left out says so in its result. So results are matched to records by
their place alone, and the projection has no filter, no shuffle and no state.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from isthmus.errors import ConfigError
from isthmus.model.links.transform import Decoding, RecordFormat, RecordPart, RecordPath, Transform, TransformWay
from isthmus.spark.transforms.editing import CORRUPT, KEPT, ResultKind, build_fields

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType

_COLUMNS: Final = {
    "key": "BINARY",
    "value": "BINARY",
    "headers": "MAP<STRING, BINARY>",
    "topic": "STRING",
    "partition": "INT",
    "offset": "BIGINT",
    "timestamp": "TIMESTAMP",
    "timestampType": "INT",
}
ROWS_PER_BATCH: Final = 512
"""Spark hands rows on to Python in batches of so many."""
_AT_ONCE: Final = {
    # As little as possible is held back in buffers: a batch has to arrive before the next one is there.
    "spark.sql.execution.pandas.udf.buffer.size": "64",
    # A batch that ends early because of its bytes would shift all later ones, whose ends would wait for the next chunk.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
}
_IN_BULK: Final = {"spark.sql.execution.arrow.maxBytesPerBatch": str(8 << 20)}
_CONF: Final = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(ROWS_PER_BATCH),
    "spark.sql.execution.arrow.useLargeVarTypes": "false",
    # What an application has set for its own queries does not change what expressions mean.
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.caseSensitive": "false",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.parser.quotedRegexColumnNames": "false",
    "spark.sql.ansi.enforceReservedKeywords": "false",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
}
_CORRUPT: Final = "_corrupt_record"
_DECODED: Final = (RecordPart.KEY, RecordPart.VALUE)
_HINT: Final = "Expressions are Spark's SQL, over key, value, headers, timestamp, topic, partition and offset."


class Compiled(NamedTuple):
    """Transforms compiled to one projection: `columns` of records are fed, and `kinds` are those of the results.

    `timed` says which transforms read the timestamp. `refused` are other ones, by their digests, each with the reason.
    """

    transforms: tuple[Transform, ...]
    columns: tuple[str, ...]
    kinds: tuple[tuple[ResultKind, ...], ...]
    timed: tuple[bool, ...] = ()
    refused: tuple[tuple[str, str], ...] = ()

    @property
    def fed_ddl(self) -> str:
        """The schema of the rows that are fed."""
        # Python holds back the end of a batch that does not fill its buffer: a column of eight bytes a row does.
        return ", ".join(["_transform INT", *(f"_{name} {_COLUMNS[name]}" for name in self.columns), "_chunk BIGINT"])


def expression_session(spark: SparkSession, *, in_bulk: bool = False) -> SparkSession:
    """Return a session of the same application with the settings that evaluating expressions needs: errors are errors
    (ANSI), times are UTC, and rows are handed on at once, or `in_bulk`.
    """
    session = spark.newSession()
    for name, value in (_CONF | (_IN_BULK if in_bulk else _AT_ONCE)).items():
        session.conf.set(name, value)
    return session


def compile_transforms(spark: SparkSession, transforms: Sequence[Transform]) -> Compiled:
    """Compile transforms, each by itself, so that a mistake is named where it is.

    :raises ConfigError: Spark does not understand an expression; the message is Spark's.
    """
    whole = Compiled(tuple(transforms), tuple(_COLUMNS), ())
    rows = spark.createDataFrame([], whole.fed_ddl)
    kinds, read = [], list[set[str]]()
    for transform in transforms:
        _parse(spark, transform)
        _check_whole_parts(spark, transform)
        decoded = decode_rows(spark, rows, transform)
        read.append(_columns_read(spark, transform))
        kinds.append(tuple(_check(decoded, transform)))
        _check_rows(spark, rows, Compiled((transform,), whole.columns, (kinds[-1],)))
    fed = tuple(name for name in _COLUMNS if any(name in each for each in read))
    return Compiled(tuple(transforms), fed, tuple(kinds), tuple("timestamp" in each for each in read))


def compile_sound(spark: SparkSession, transforms: Sequence[Transform]) -> Compiled:
    """Compile the transforms that Spark understands; the others are `refused`, and disturb no lane but their own."""
    sound, refused = [], []
    for each in transforms:
        try:
            compile_transforms(spark, [each])
        except ConfigError as error:
            refused.append((each.digest, error.message))
        else:
            sound.append(each)
    return compile_transforms(spark, sound)._replace(refused=tuple(refused))


@functools.lru_cache(maxsize=16)
def compile_for_leases(spark: SparkContext, transforms: tuple[Transform, ...]) -> tuple[SparkSession, Compiled]:
    """Return a session for leases of these transforms, and them compiled (`compile_sound`). Jobs follow one another
    with the same ones.
    """
    from pyspark.sql import SparkSession

    session = expression_session(SparkSession(spark))
    return session, compile_sound(session, transforms)


def require_sound(spark: SparkContext, transforms: tuple[Transform, ...]) -> None:
    """Require that Spark understands all expressions of these transforms.

    :raises ConfigError: It does not.
    """
    for _, message in compile_for_leases(spark, transforms)[1].refused:
        raise ConfigError(message, hint=_HINT)


def transforms_by_expressions(transforms: Iterable[Transform]) -> tuple[Transform, ...]:
    """Return those that change records by expressions, each once, in an order that does not depend on the given one."""
    found = {each.digest: each for each in transforms if each.way is TransformWay.SQL}
    return tuple(found[digest] for digest in sorted(found))


def project(spark: SparkSession, rows: DataFrame, compiled: Compiled, also: Sequence[str] = ("_chunk",)) -> DataFrame:
    """Return the results of rows (`Compiled.fed_ddl`): the column `_result`, which is NULL where an expression failed,
    and `also` columns of the rows.
    """
    kept = list(rows.columns)
    results: list[str] = []
    for number, (transform, kinds) in enumerate(zip(compiled.transforms, compiled.kinds, strict=True)):
        decoded = decode_rows(spark, rows, transform, [*kept, *results])
        name = f"_result{number}"
        given = f"CASE WHEN _transform = {number} THEN {_result(transform, kinds)} END AS {name}"
        rows = decoded.selectExpr(*kept, *results, given)
        results.append(name)
    return rows.selectExpr(f"coalesce({', '.join([*results, 'CAST(NULL AS BINARY)'])}) AS _result", *also)


def decode_rows(spark: SparkSession, rows: DataFrame, transform: Transform, kept: Sequence[str] = ()) -> DataFrame:
    """Add the columns that the expressions of a transform see."""
    known = set(rows.columns)
    given = list(kept)
    for name in _COLUMNS:
        if f"_{name}" not in known:
            continue
        part = RecordPart(name) if name in set(_DECODED) else None
        decoding = None if part is None else (transform.key if part is RecordPart.KEY else transform.value)
        given.append(
            f"{_decode_part(spark, transform, part, decoding)} AS {name}" if part and decoding else f"_{name} AS {name}"
        )
    return rows.selectExpr(*given)


def _decode_part(spark: SparkSession, transform: Transform, part: RecordPart, decoding: Decoding) -> str:
    if decoding.format is RecordFormat.UTF8:
        return f"CAST(_{part} AS STRING)"
    if decoding.format is not RecordFormat.JSON:
        return f"_{part}"
    fields = decoding.fields or build_fields(_paths_read(spark, transform), part)
    ddl = f"{fields}, {_CORRUPT} STRING" if fields else f"{_CORRUPT} STRING"
    options = f"map('mode', 'PERMISSIVE', 'columnNameOfCorruptRecord', '{_CORRUPT}')"
    return f"from_json(CAST(_{part} AS STRING), '{_escape(ddl)}', {options})"


def _result(transform: Transform, kinds: Sequence[ResultKind]) -> str:
    """The result of a row as one JSON text, NULL if an expression of it raises an error."""
    members = [f"'{KEPT}'", "true"]
    for number, (each, kind) in enumerate(zip(transform.sets, kinds, strict=True)):
        value = _bracket(each.expression)
        if each.path.part is RecordPart.TIMESTAMP:
            value = f"unix_millis({value})"
        elif kind.is_binary:
            value = f"base64({value})"
        members += [f"'{number}'", value]
    text = f"to_json(named_struct({', '.join(members)}), map('ignoreNullFields', 'false'))"
    if transform.where:
        text = f"if({_bracket(transform.where)}, {text}, '{json.dumps({KEPT: False})}')"
    for part in _DECODED:
        decoding = transform.key if part is RecordPart.KEY else transform.value
        if decoding.format is RecordFormat.JSON:
            text = f"if({part}.{_CORRUPT} IS NULL, {text}, '{json.dumps({CORRUPT: str(part)})}')"
    # Of all functions this one evaluates its argument so that an error of it is NULL.
    return f"try_to_binary({text}, 'utf-8')"


def _check(decoded: DataFrame, transform: Transform) -> Iterator[ResultKind]:
    """Yield the kinds of the results of a transform.

    :raises ConfigError: Spark does not understand an expression, or its type does not fit.
    """
    from pyspark.sql.types import ArrayType, BinaryType, BooleanType, MapType, StructType, TimestampType

    if transform.where:
        found = _type_of(decoded, "where", transform.where)
        if not isinstance(found, BooleanType):
            raise ConfigError(
                f"where: {transform.where} is of type {found.simpleString()}, not boolean",
                field="where",
                hint="Compare something: records for which it is true are copied.",
            )
    for each in transform.sets:
        name = f"set.{each.path}"
        found = _type_of(decoded, name, each.expression)
        if each.path.part is RecordPart.TIMESTAMP and not isinstance(found, TimestampType):
            raise ConfigError(
                f"{name}: {each.expression} is of type {found.simpleString()}, not timestamp",
                field=name,
                hint="Write CAST(... AS TIMESTAMP), or timestamp_millis(...) of a number of milliseconds.",
            )
        if not each.path.is_field and isinstance(found, (ArrayType, MapType, StructType)):
            raise ConfigError(
                f"{name}: {each.expression} is of type {found.simpleString()}, not bytes or a text",
                field=name,
                hint="Write to_json(...) of it; a value that stays as it is needs no assignment.",
            )
        yield ResultKind(is_binary=isinstance(found, BinaryType))


def _type_of(decoded: DataFrame, name: str, expression: str) -> DataType:
    from pyspark.errors import PySparkException

    try:
        return decoded.selectExpr(f"{_bracket(expression)} AS result").schema["result"].dataType
    except PySparkException as error:
        raise ConfigError(f"{name}: {describe_error(error)}", field=name, hint=_HINT) from error


def _bracket(expression: str) -> str:
    """The expression in brackets; it may end with a comment, which ends with its line."""
    return f"(\n{expression}\n)"


def _parse(spark: SparkSession, transform: Transform) -> None:
    """Require that each expression is one by itself: `a) OR (b` is not, although it is in brackets.

    :raises ConfigError: One is not.
    """
    from pyspark.errors import PySparkException

    for name, expression in named_expressions(transform):
        try:
            _parser(spark).parseExpression(expression)
        except PySparkException as error:
            raise ConfigError(f"{name}: {describe_error(error)}", field=name, hint=_HINT) from error


def _check_whole_parts(spark: SparkSession, transform: Transform) -> None:
    """Require that no expression reads all of a JSON text whose fields are not given: only those that are named in
    expressions are known, so that it would be another one. Whether it is NULL may be asked.

    :raises ConfigError: One does.
    """
    for part in _DECODED:
        decoding: Decoding = getattr(transform, part.value)
        if decoding.format is not RecordFormat.JSON or decoding.fields:
            continue
        for name, expression in named_expressions(transform):
            rest = re.sub(rf"\b{part}\s+IS\s+(NOT\s+)?NULL\b", "true", expression, flags=re.IGNORECASE)
            if any(len(names) == 1 and names[0].lower() == part for names in _references(spark, rest)):
                raise ConfigError(
                    f"{name}: {expression} reads the whole {part}, whose fields are not given",
                    field=name,
                    hint=f"Give them (decode: {{{part}: {{format: json, fields: ...}}}}), or name those that it reads.",
                )


def _parser(spark: SparkSession) -> Any:
    jvm: Any = spark
    return jvm._jsparkSession.sessionState().sqlParser()


def _check_rows(spark: SparkSession, rows: DataFrame, compiled: Compiled) -> None:
    """Require that results are made of each row by itself, in the order of rows: other plans (of aggregates, windows,
    generators, subqueries) would wait for the last row, which comes when the lease ends.

    :raises ConfigError: They are not, or cannot be made at all.
    """
    from pyspark.errors import PySparkException

    (transform,) = compiled.transforms
    name = transform.described
    try:
        projected: Any = project(spark, rows, compiled)
    except PySparkException as error:
        raise ConfigError(f"{name}: {describe_error(error)}", hint=_HINT) from error
    plan = projected._jdf.queryExecution().analyzed()
    others = sorted({each for each in _steps(plan) if each != "Project"})
    if others or not plan.subqueriesAll().isEmpty():
        what = ", ".join(others) or "a subquery"
        raise ConfigError(
            f"{name}: it needs more than the record itself ({what})",
            hint="Expressions see one record at a time: leave out aggregates, windows, generators and subqueries.",
        )


def _steps(plan: Any) -> Iterator[str]:
    """Yield the names of the steps of a plan, but not those of what it reads."""
    children = plan.children()
    if children.isEmpty():
        return
    yield plan.nodeName()
    for place in range(children.size()):
        yield from _steps(children.apply(place))


def describe_error(error: Exception) -> str:
    """Return the first line of Spark's message."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def named_expressions(transform: Transform) -> Iterator[tuple[str, str]]:
    """Yield the expressions of a transform, each with its key."""
    if transform.where:
        yield "where", transform.where
    for each in transform.sets:
        yield f"set.{each.path}", each.expression


def _references(spark: SparkSession, expression: str) -> Iterator[tuple[str, ...]]:
    """Yield the names that an expression reads, by Spark's own parser; none if it cannot be parsed."""
    from pyspark.errors import PySparkException

    try:
        found = _parser(spark).parseExpression(expression).references().iterator()
    except PySparkException:
        return
    while found.hasNext():
        parts = found.next().nameParts()
        yield tuple(parts.apply(place) for place in range(parts.size()))


def _columns_read(spark: SparkSession, transform: Transform) -> set[str]:
    """The columns that a transform reads; JSON is decoded wherever its format is checked."""
    known = {name.lower(): name for name in _COLUMNS}
    read = {names[0].lower() for _, each in named_expressions(transform) for names in _references(spark, each)}
    read |= {part.value for part in _DECODED if getattr(transform, part.value).format is RecordFormat.JSON}
    return {known[name] for name in read if name in known}


def _paths_read(spark: SparkSession, transform: Transform) -> Iterator[RecordPath]:
    for _, each in named_expressions(transform):
        for names in _references(spark, each):
            if names[0].lower() in {part.value for part in _DECODED}:
                yield RecordPath(RecordPart(names[0].lower()), tuple(names[1:]))


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")
