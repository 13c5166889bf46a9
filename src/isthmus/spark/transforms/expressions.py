"""Compiles transforms to one projection of Spark SQL, in which each row is a record of one of them.

    rows of records ─▶ for each transform: decode key and value, evaluate where and set ─▶ one JSON text for each row

Rows come out as they went in: a record that is left out says so in its result. So results are matched to records by
their place alone, and the projection has no filter, no shuffle and no state.
"""

from __future__ import annotations

import contextlib
import functools
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from isthmus.errors import ConfigError
from isthmus.model.links.transform import (
    Decoding,
    PartAssignment,
    RecordFormat,
    RecordPart,
    RecordPath,
    Transform,
    TransformWay,
)
from isthmus.spark.formats.decoding import DecodedColumns, Prepared
from isthmus.spark.formats.types import ARRAY, MAP, STRUCT
from isthmus.spark.formats.values import RESULT
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
_JSON_OPTIONS: Final = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
"""How a result is written that becomes a field of a part with a schema: times keep their microseconds."""
_HINT: Final = "Expressions are Spark's SQL, over key, value, headers, timestamp, topic, partition and offset."


class Compiled(NamedTuple):
    """Transforms compiled to one projection: `columns` of records are fed, and `kinds` are those of the results.

    `timed` says which transforms read the timestamp. `refused` are other ones, each with the reason.
    """

    prepared: tuple[Prepared, ...]
    columns: tuple[str, ...]
    kinds: tuple[tuple[ResultKind, ...], ...]
    timed: tuple[bool, ...] = ()
    refused: tuple[tuple[Prepared, str], ...] = ()

    @property
    def transforms(self) -> tuple[Transform, ...]:
        """The transforms in their order."""
        return tuple(each.transform for each in self.prepared)

    @property
    def decoded(self) -> tuple[tuple[str, DecodedColumns], ...]:
        """The columns of parts that are decoded before they are fed, each with its name."""
        return tuple(
            (decoded_name(part, number), columns)
            for number, each in enumerate(self.prepared)
            for part, columns in each.decoded
        )

    @property
    def fed_ddl(self) -> str:
        """The schema of the rows that are fed."""
        plain = (f"_{name} {_COLUMNS[name]}" for name in self.columns)
        decoded = (f"{name} {columns.type.ddl}" for name, columns in self.decoded)
        # Python holds back the end of a batch that does not fill its buffer: a column of eight bytes a row does.
        return ", ".join(["_transform INT", *plain, *decoded, "_chunk BIGINT"])


def decoded_name(part: RecordPart, number: int) -> str:
    """Return the name of the column that a part has that is decoded for a transform, by its number."""
    return f"_{part}{number}"


def expression_session(spark: SparkSession, *, in_bulk: bool = False) -> SparkSession:
    """Return a session of the same application with the settings that evaluating expressions needs: errors are errors
    (ANSI), times are UTC, and rows are handed on at once, or `in_bulk`.
    """
    session = spark.newSession()
    for name, value in (_CONF | (_IN_BULK if in_bulk else _AT_ONCE)).items():
        session.conf.set(name, value)
    return session


def compile_transforms(spark: SparkSession, prepared: Sequence[Prepared]) -> Compiled:
    """Compile transforms, each by itself, so that a mistake is named where it is.

    :raises ConfigError: Spark does not understand an expression; the message is Spark's.
    """
    kinds, read = [], list[set[str]]()
    for each in prepared:
        _parse(spark, each.transform)
        _check_fields(spark, each.transform)
        _check_whole_parts(spark, each.transform)
        alone = Compiled((each,), tuple(_COLUMNS), ())
        rows = spark.createDataFrame([], alone.fed_ddl)
        decoded = decode_rows(spark, rows, each, 0)
        read.append(_columns_read(spark, each.transform))
        kinds.append(tuple(_check(decoded, each)))
        _check_rows(spark, rows, alone._replace(kinds=(kinds[-1],)))
    fed = tuple(name for name in _COLUMNS if any(name in each for each in read))
    return Compiled(tuple(prepared), fed, tuple(kinds), tuple("timestamp" in each for each in read))


def compile_sound(spark: SparkSession, prepared: Sequence[Prepared]) -> Compiled:
    """Compile the transforms that Spark understands; the others are `refused`, and disturb no lane but their own."""
    sound, refused = [], []
    for each in prepared:
        try:
            if each.problem:
                raise ConfigError(each.problem)
            compile_transforms(spark, [each])
        except ConfigError as error:
            refused.append((each, error.message))
        else:
            sound.append(each)
    return compile_transforms(spark, sound)._replace(refused=tuple(refused))


@functools.lru_cache(maxsize=1)
def parsing_session(spark: SparkContext) -> SparkSession:
    """Return a session that reads expressions as leases do."""
    from pyspark.sql import SparkSession

    return expression_session(SparkSession(spark))


@functools.lru_cache(maxsize=16)
def compile_for_leases(spark: SparkContext, prepared: tuple[Prepared, ...]) -> tuple[SparkSession, Compiled]:
    """Return a session for leases of these transforms, and them compiled (`compile_sound`). Jobs follow one another
    with the same ones.
    """
    from pyspark.sql import SparkSession

    session = expression_session(SparkSession(spark))
    return session, compile_sound(session, prepared)


def require_sound(spark: SparkContext, prepared: tuple[Prepared, ...]) -> None:
    """Require that Spark understands all expressions of these transforms.

    :raises ConfigError: It does not.
    """
    for each, message in compile_for_leases(spark, prepared)[1].refused:
        if not each.problem:
            raise ConfigError(message, hint=_HINT)


def by_expressions(transforms: Iterable[Transform], known: Iterable[Prepared]) -> tuple[Prepared, ...]:
    """Return those that change records by expressions, each once, in an order that does not depend on the given one.
    `known` are the columns of those that have schemas.
    """
    prepared = {each.transform.digest: each for each in known}
    found = {each.digest: each for each in transforms if each.way is TransformWay.SQL}
    problem = "its schemas were not looked at yet"
    return tuple(
        prepared.get(digest) or Prepared(each, problem=problem if each.has_schemas else "")
        for digest, each in sorted(found.items())
    )


def project(spark: SparkSession, rows: DataFrame, compiled: Compiled, also: Sequence[str] = ("_chunk",)) -> DataFrame:
    """Return the results of rows (`Compiled.fed_ddl`): the column `_result`, which is NULL where an expression failed,
    and `also` columns of the rows.
    """
    kept = list(rows.columns)
    results: list[str] = []
    for number, (each, kinds) in enumerate(zip(compiled.prepared, compiled.kinds, strict=True)):
        decoded = decode_rows(spark, rows, each, number, [*kept, *results])
        name = f"_result{number}"
        given = f"CASE WHEN _transform = {number} THEN {_result(each.transform, kinds)} END AS {name}"
        rows = decoded.selectExpr(*kept, *results, given)
        results.append(name)
    return rows.selectExpr(f"coalesce({', '.join([*results, 'CAST(NULL AS BINARY)'])}) AS _result", *also)


def decode_rows(
    spark: SparkSession, rows: DataFrame, prepared: Prepared, number: int, kept: Sequence[str] = ()
) -> DataFrame:
    """Add the columns that the expressions of a transform see, by its number."""
    known = set(rows.columns)
    given = list(kept)
    for name in _COLUMNS:
        part = RecordPart(name) if name in set(_DECODED) else None
        if part is not None and prepared.columns_of(part) is not None:
            given.append(f"{decoded_name(part, number)} AS {name}")
        elif f"_{name}" in known:
            given.append(f"{_decode_part(spark, prepared.transform, part) if part else f'_{name}'} AS {name}")
    return rows.selectExpr(*given)


def _decode_part(spark: SparkSession, transform: Transform, part: RecordPart) -> str:
    decoding = transform.decoding(part)
    if decoding.format is RecordFormat.UTF8:
        return f"CAST(_{part} AS STRING)"
    if decoding.format is not RecordFormat.JSON:
        return f"_{part}"
    fields = decoding.fields or build_fields(paths_read(spark, transform), part)
    ddl = f"{fields}, {_CORRUPT} STRING" if fields else f"{_CORRUPT} STRING"
    options = f"map('mode', 'PERMISSIVE', 'columnNameOfCorruptRecord', '{_CORRUPT}')"
    return f"from_json(CAST(_{part} AS STRING), '{_escape(ddl)}', {options})"


def _result(transform: Transform, kinds: Sequence[ResultKind]) -> str:
    """The result of a row as one JSON text, NULL if an expression of it raises an error."""
    members = [f"'{KEPT}'", "true"]
    for number, (each, kind) in enumerate(zip(transform.sets, kinds, strict=True)):
        value = _bracket(each.expression)
        if kind.has_schema:
            value = f"CAST({value} AS {kind.cast})" if kind.cast else value
            options = ", ".join(f"'{name}', '{_escape(text)}'" for name, text in _JSON_OPTIONS.items())
            value = f"to_json(named_struct('{RESULT}', {value}), map({options}))"
        elif each.path.part is RecordPart.TIMESTAMP:
            value = f"unix_millis({value})"
        elif kind.is_binary:
            value = f"base64({value})"
        members += [f"'{number}'", value]
    text = f"to_json(named_struct({', '.join(members)}), map('ignoreNullFields', 'false'))"
    if transform.where:
        text = f"if({_bracket(transform.where)}, {text}, '{json.dumps({KEPT: False})}')"
    for part in _DECODED:
        if transform.decoding(part).format is RecordFormat.JSON:
            text = f"if({part}.{_CORRUPT} IS NULL, {text}, '{json.dumps({CORRUPT: str(part)})}')"
    # Of all functions this one evaluates its argument so that an error of it is NULL.
    return f"try_to_binary({text}, 'utf-8')"


def _check(decoded: DataFrame, prepared: Prepared) -> Iterator[ResultKind]:
    """Yield the kinds of the results of a transform.

    :raises ConfigError: Spark does not understand an expression, or its type does not fit.
    """
    from pyspark.sql.types import ArrayType, BinaryType, BooleanType, MapType, StructType, TimestampType

    transform = prepared.transform
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
        columns = prepared.columns_of(each.path.part)
        if columns is not None:
            yield _check_target(decoded, each, found, columns)
            continue
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


def _check_target(decoded: DataFrame, given: PartAssignment, found: DataType, columns: DecodedColumns) -> ResultKind:
    """Return the kind of a result that becomes a field of a part with a schema.

    :raises ConfigError: It cannot be made one of the field's type.
    """
    from pyspark.sql.types import NullType

    name, target = f"set.{given.path}", dict(columns.targets)[given.path]
    if isinstance(found, NullType):
        return ResultKind(has_schema=True)
    if target.name not in (STRUCT, ARRAY, MAP):
        _type_of(decoded, name, f"CAST({_bracket(given.expression)} AS {target.ddl})")
        return ResultKind(has_schema=True, cast=target.ddl)
    wanted = decoded.selectExpr(f"CAST(NULL AS {target.ddl}) AS result").schema["result"].dataType
    if found.simpleString() != wanted.simpleString():
        raise ConfigError(
            f"{name}: {given.expression} is of type {found.simpleString()}, and the schema has it as "
            f"{wanted.simpleString()}",
            field=name,
            hint="All of it has to have that type, with the same fields in the same order; or set single fields of it.",
        )
    return ResultKind(has_schema=True)


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


def _check_fields(spark: SparkSession, transform: Transform) -> None:
    """Require that Spark understands the fields that are given.

    :raises ConfigError: It does not.
    """
    from pyspark.errors import PySparkException

    for part in _DECODED:
        fields = transform.decoding(part).fields
        try:
            if fields:
                _parser(spark).parseTableSchema(fields)
        except PySparkException as error:
            raise ConfigError(
                f"decode.{part}.fields: {describe_error(error)}",
                field=f"decode.{part}.fields",
                hint='Fields are written as columns of a table in Spark\'s SQL: "country STRING, amount DOUBLE".',
            ) from error


def _check_whole_parts(spark: SparkSession, transform: Transform) -> None:
    """Require that no expression reads all of a JSON text whose fields are not given: only those that are named in
    expressions are known, so that it would be another one. Whether it is NULL may be asked.

    :raises ConfigError: One does.
    """
    for part in _DECODED:
        decoding: Decoding = transform.decoding(part)
        if decoding.format is not RecordFormat.JSON or decoding.fields:
            continue
        for name, expression in named_expressions(transform):
            if any(not path.names for path in _paths_in(spark, expression, part)):
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

    (prepared,) = compiled.prepared
    name = prepared.transform.described
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
    """Yield the names that an expression reads, by Spark's own parser; none if it cannot be parsed. `value.*` reads all
    of the value, and `*` all that there is.
    """
    from pyspark.errors import PySparkException

    try:
        parsed = _parser(spark).parseExpression(expression)
    except PySparkException:
        return
    found = parsed.references().iterator()
    while found.hasNext():
        yield _names_in(found.next().nameParts())
    for each in _below(parsed):
        if each.getClass().getSimpleName().startswith("UnresolvedStar"):
            target = each.target()
            yield from ((name,) for name in _COLUMNS) if target.isEmpty() else (_names_in(target.get()),)


def _names_in(parts: Any) -> tuple[str, ...]:
    return tuple(parts.apply(place) for place in range(parts.size()))


def _below(expression: Any) -> Iterator[Any]:
    """Yield an expression, and all within it."""
    yield expression
    children = expression.children()
    for place in range(children.size()):
        yield from _below(children.apply(place))


def _columns_read(spark: SparkSession, transform: Transform) -> set[str]:
    """The columns of records that a transform reads as they are; JSON is decoded wherever its format is checked."""
    known = {name.lower(): name for name in _COLUMNS}
    read = {names[0].lower() for _, each in named_expressions(transform) for names in _references(spark, each)}
    read |= {part.value for part in _DECODED if transform.decoding(part).format is RecordFormat.JSON}
    read -= {part.value for part in _DECODED if transform.decoding(part).format.has_schema}
    return {known[name] for name in read if name in known}


def paths_named(spark: SparkSession, transform: Transform) -> list[RecordPath]:
    """Return the fields and headers that records need for a transform to have its effect: those that expressions read,
    that are dropped, kept or masked, and that hold what is set.
    """
    found = [path for path in paths_read(spark, transform) if path.names]
    found += [RecordPath(each.path.part, each.path.names[:-1]) for each in transform.sets if len(each.path.names) > 1]
    return list(dict.fromkeys([*found, *transform.drop, *transform.keep, *transform.mask]))


@contextlib.contextmanager
def active_session_kept(spark: SparkSession) -> Iterator[None]:
    """Leave that session active in this thread which is: the one that makes a DataFrame becomes it, and a notebook
    would go on with its settings.
    """
    before = type(spark).getActiveSession() or spark
    try:
        yield
    finally:
        before.createDataFrame([], "nothing INT")


def paths_read(spark: SparkSession, transform: Transform) -> Iterator[RecordPath]:
    """Yield what the expressions of a transform read of key and value. Whether all of one is NULL needs none of it."""
    for _, each in named_expressions(transform):
        for part in _DECODED:
            yield from _paths_in(spark, each, part)


def _paths_in(spark: SparkSession, expression: str, part: RecordPart) -> Iterator[RecordPath]:
    rest = re.sub(rf"(?<![\w.`])\b{part}\s+IS\s+(NOT\s+)?NULL\b", "true", expression, flags=re.IGNORECASE)
    for names in _references(spark, rest):
        if names[0].lower() == part:
            yield RecordPath(part, tuple(names[1:]))


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")
