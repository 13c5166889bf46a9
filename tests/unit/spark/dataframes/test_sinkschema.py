"""The columns and options that a sink takes."""

from __future__ import annotations

from typing import Any, Final

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from isthmus.errors import ConfigError
from isthmus.spark.dataframes.options import GivenOptions
from isthmus.spark.dataframes.sinkschema import SinkSettings, check_sink_schema, read_settings

HEADERS: Final = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
OF_SOURCE: Final[dict[str, Any]] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": HEADERS,
}


def settings(**options: str) -> SinkSettings:
    return read_settings(GivenOptions({"cluster": "east", **options}))


def check(columns: dict[str, Any], **options: str) -> None:
    check_sink_schema(StructType([StructField(*each) for each in columns.items()]), settings(**options))


def test_what_is_read_can_be_written() -> None:
    """All columns of the data source, and keys and values as strings."""
    check(OF_SOURCE)
    check({"value": StringType(), "key": StringType()}, topic="t")


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"value": None}, "needs a column value"),
        ({"topic": None}, "no column topic, and there is no option topic"),
        ({"value": LongType()}, "column value is bigint, and has to be binary or string"),
        ({"partition": LongType()}, "column partition is bigint, and has to be int"),
        ({"timestamp": LongType()}, "column timestamp is bigint, and has to be timestamp"),
        ({"headers": StringType()}, "column headers is string, and has to be array<struct<key:string,value:binary>>"),
        ({"header": HEADERS}, "no column 'header'"),
    ],
)
def test_columns_that_cannot_be_written_are_named(columns: dict[str, Any], told: str) -> None:
    """Before a row is read, with what to do."""
    with pytest.raises(ConfigError) as raised:
        check({name: kind for name, kind in (OF_SOURCE | columns).items() if kind is not None})
    assert told in str(raised.value)
    assert raised.value.hint


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"compression": "brotli"}, "no codec 'brotli'"),
        ({"epoch": "-1", "name": "n"}, "no whole number"),
        ({"epoch": "1"}, "needs the option name"),
        ({"commit": "never"}, "neither epoch nor task"),
        ({"transactionTimeout": "0"}, "no whole number above 0"),
        ({"transactionTimeout": "999999"}, "more than a week"),
        ({"takeOver": "perhaps"}, "neither true nor false"),
        ({"kafka.bootstrap.servers": "east:9092"}, "no meaning here"),
        ({"topics": "t"}, "no such option"),
        ({"path": "t"}, "no meaning here"),
    ],
)
def test_options_that_cannot_be_used_are_named(options: dict[str, str], told: str) -> None:
    """One by one, with what there is instead."""
    with pytest.raises(ConfigError) as raised:
        settings(**options)
    assert told in str(raised.value)
    assert raised.value.hint


def test_options_without_a_value_have_a_default() -> None:
    """Nothing but the cluster has to be given."""
    assert settings(queryName="q", checkpointLocation="/tmp") == SinkSettings("", "", None, 0, False, False, 900)  # noqa: S108
    given = settings(topic="t", name="n", epoch="7", compression="ZSTD", takeOver="true", commit="task")
    assert given == SinkSettings("t", "n", 7, 4, True, True, 900)
