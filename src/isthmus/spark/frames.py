"""Values as Spark DataFrames: a column for each key of their JSON form, typed as it is."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, Literal, get_args, get_origin

from pyspark.sql.types import BooleanType, DataType, DoubleType, LongType, StringType, StructField, StructType

from isthmus.model.text.plain import Key, PlainValue, keys_of, without_none

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TYPES: Final[dict[type, DataType]] = {
    bool: BooleanType(),
    int: LongType(),
    float: DoubleType(),
    str: StringType(),
}


def frame_of(spark: SparkSession, kind: Any, rows: Iterable[PlainValue]) -> DataFrame:
    """Return these values, all of a flat `kind`, as a DataFrame; its columns are there without any row as well."""
    schema = schema_of(kind)
    doubles = [isinstance(field.dataType, DoubleType) for field in schema.fields]
    data = [
        tuple(
            float(value) if is_double and value is not None else value
            for value, is_double in zip(row.as_dict().values(), doubles, strict=True)
        )
        for row in rows
    ]
    return spark.createDataFrame(data, schema)


def schema_of(kind: Any) -> StructType:
    """Return the columns of a flat kind of value; those that may be `None` are nullable."""
    return StructType([_field(key) for key in keys_of(kind)])


def _field(key: Key) -> StructField:
    is_nullable = without_none(key.hint) != key.hint
    return StructField(key.key, _TYPES[_scalar(without_none(key.hint))], is_nullable)


def _scalar(hint: Any) -> Any:
    """Return the type of JSON that a type of field becomes."""
    if get_origin(hint) is Literal:
        return type(get_args(hint)[0])
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return str
    return getattr(hint, "__supertype__", hint)
