"""The columns of the data source: those of Spark's own Kafka source by default, and ours where they are named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.types import IntegerType, StructType, TimestampType

from isthmus.errors import ConfigError
from isthmus.spark.ranges import MODES
from isthmus.spark.rows import RECORD_COLUMNS, UNUSUAL_COLUMNS, Part, RowColumn, timestamp_of

ABORTED: Final = "is_aborted"
_US_PER_MS: Final = 1_000
_HEADERS: Final = "headers"
_NO_TIMESTAMP_TYPE: Final = -1
"""As Kafka's clients have it: records from before magic 1 have no timestamp."""


def _headers(part: Part) -> Sequence[Any]:
    """Return the headers of records, null where a record has none, as Spark's own source has it."""
    return [found or None for found in RECORD_COLUMNS[_HEADERS].values(part)]


def _timestamp_types(part: Part) -> Sequence[int]:
    return [_NO_TIMESTAMP_TYPE if each.timestamp_type is None else each.timestamp_type for each in part.rows]


_OF_KAFKA_SOURCE: Final[Mapping[str, RowColumn]] = {
    "key": RECORD_COLUMNS["key"],
    "value": RECORD_COLUMNS["value"],
    "topic": RECORD_COLUMNS["topic"],
    "partition": RECORD_COLUMNS["partition"],
    "offset": RECORD_COLUMNS["offset"],
    "timestamp": RowColumn(
        TimestampType(),
        pa.timestamp("us", "UTC"),
        lambda part: [timestamp_of(record) * _US_PER_MS for record in part.rows],
    ),
    "timestampType": RowColumn(IntegerType(), pa.int32(), _timestamp_types),
    _HEADERS: RECORD_COLUMNS[_HEADERS]._replace(values=_headers),
}

SOURCE_COLUMNS: Final[Mapping[str, Mapping[str, RowColumn]]] = {
    **MODES,
    "records": {**RECORD_COLUMNS, **_OF_KAFKA_SOURCE},
}
"""The columns that can be named, by mode."""


def default_schema(mode: str, *, includes_headers: bool = True) -> StructType:
    """Return the columns that are read where none are named."""
    if mode == "records":
        names = [name for name in _OF_KAFKA_SOURCE if includes_headers or name != _HEADERS]
    else:
        names = [name for name in MODES[mode] if name not in UNUSUAL_COLUMNS]
    schema = StructType()
    for name in names:
        schema.add(name, SOURCE_COLUMNS[mode][name].spark)
    return schema


def check_schema(mode: str, schema: StructType) -> None:
    """See that the columns of a schema are those of a mode, whatever their case.

    :raises ConfigError: There is no such column, or it has another type.
    """
    known = SOURCE_COLUMNS[mode]
    lowered = {name.lower(): column for name, column in known.items()}
    for field in schema.fields:
        column = lowered.get(field.name.lower())
        if column is None:
            raise ConfigError(
                f"the data source has no column {field.name!r} in mode {mode}", hint=f"It has {', '.join(known)}."
            )
        if column.spark.simpleString() != field.dataType.simpleString():
            raise ConfigError(
                f"column {field.name} of the data source is {column.spark.simpleString()}, not "
                f"{field.dataType.simpleString()}",
                hint="Name it so in the schema, and cast it in the query.",
            )


def columns_named(mode: str, names: Sequence[str]) -> dict[str, RowColumn]:
    """Return the columns with these names, written as they are here."""
    lowered = {name.lower(): column for name, column in SOURCE_COLUMNS[mode].items()}
    return {name: lowered[name.lower()] for name in names}
