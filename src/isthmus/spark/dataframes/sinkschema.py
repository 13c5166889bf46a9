"""The columns and options of a sink, checked before a row is read."""

from __future__ import annotations

from typing import Final, NamedTuple

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructType,
    TimestampType,
)

from isthmus.errors import ConfigError
from isthmus.kafka.batches.batch import CODECS
from isthmus.spark.dataframes.options import CLUSTER_OPTIONS, GivenOptions, refused

SINK_COLUMNS: Final = ("key", "value", "topic", "partition", "timestamp", "headers")
_OF_SOURCE: Final = ("offset", "timestampType")
"""Columns of the data source that say where a record was: a sink passes them over."""
SINK_OPTIONS: Final = (
    *CLUSTER_OPTIONS,
    "topic",
    "name",
    "epoch",
    "compression",
    "commit",
    "takeOver",
    "transactionTimeout",
)
_OF_STREAMS: Final = ("checkpointLocation", "queryName")
_UNSUPPORTED: Final = {
    "kafka.bootstrap.servers": "Name the cluster by the options config and cluster.",
    "path": "Name the topic by the option topic or a column topic.",
    "includeHeaders": "Headers are written if there is a column headers.",
}
_BINARY: Final = (BinaryType, StringType)
_TIMEOUT_S: Final = 900
_TIMEOUT_MAX_S: Final = 7 * 86_400


class SinkSettings(NamedTuple):
    """The options of one sink. An empty `topic` means that each row names its own, an empty `name` that there is none.

    With `commits_tasks` each task commits its rows by itself. `timeout_s` is for how long a transaction may be open.
    """

    topic: str
    name: str
    epoch: int | None
    codec: int
    takes_over: bool
    commits_tasks: bool
    timeout_s: int


def read_settings(options: GivenOptions) -> SinkSettings:
    """Read the options of a sink.

    :raises ConfigError: One of them cannot be used.
    """
    options.refuse_others((*SINK_OPTIONS, *_OF_STREAMS), _UNSUPPORTED)
    codec = options.text("compression", "none").lower()
    if codec not in CODECS:
        raise refused("compression", f"there is no codec {codec!r}", f"There are: {', '.join(CODECS)}.")
    commit = options.text("commit", "epoch").lower()
    if commit not in ("epoch", "task"):
        raise refused("commit", f"{commit!r} is neither epoch nor task")
    epoch = options.text("epoch")
    if epoch and not epoch.isdecimal():
        raise refused("epoch", f"{epoch!r} is no whole number", "In foreachBatch it is the number of the batch.")
    if epoch and not options.text("name"):
        raise refused("epoch", "it needs the option name", "An epoch is a number of the sink with this name.")
    timeout_s = options.number("transactionTimeout") or _TIMEOUT_S
    if timeout_s > _TIMEOUT_MAX_S:
        raise refused("transactionTimeout", f"{timeout_s} s are more than a week")
    return SinkSettings(
        topic=options.text("topic"),
        name=options.text("name"),
        epoch=int(epoch) if epoch else None,
        codec=CODECS.index(codec),
        takes_over=options.flag("takeOver", False),
        commits_tasks=commit == "task",
        timeout_s=timeout_s,
    )


def check_sink_schema(schema: StructType, settings: SinkSettings) -> None:
    """See that the columns of a DataFrame can be written.

    :raises ConfigError: A column is missing, has another type, or no meaning.
    """
    types = {field.name: field.dataType for field in schema.fields}
    hint = "Select and name the columns to write: " + ", ".join(SINK_COLUMNS) + "."
    if "value" not in types:
        raise ConfigError("a sink needs a column value, and the rows have none", field="value", hint=hint)
    if "topic" not in types and not settings.topic:
        raise ConfigError(
            "the rows have no column topic, and there is no option topic",
            field="topic",
            hint='Set .option("topic", "NAME"), or add a column that names the topic of each row.',
        )
    for name, found in types.items():
        if name in _OF_SOURCE:
            continue
        if name not in SINK_COLUMNS:
            raise ConfigError(f"a sink has no column {name!r}", field=name, hint=hint)
        if wanted := _wanted_instead(name, found):
            raise ConfigError(
                f"column {name} is {found.simpleString()}, and has to be {wanted}",
                field=name,
                hint=f'Cast it: col("{name}").cast("{wanted.partition(" ")[0]}").',
            )


def _wanted_instead(name: str, found: DataType) -> str:
    """Return the type that a column has to have, "" if it has it."""
    if name in ("key", "value"):
        return "" if isinstance(found, _BINARY) else "binary or string"
    if name == "topic":
        return "" if isinstance(found, StringType) else "string"
    if name == "partition":
        return "" if isinstance(found, IntegerType) else "int"
    if name == "timestamp":
        return "" if isinstance(found, TimestampType) else "timestamp"
    return "" if _are_headers(found) else "array<struct<key:string,value:binary>>"


def _are_headers(found: DataType) -> bool:
    if not isinstance(found, ArrayType) or not isinstance(found.elementType, StructType):
        return False
    fields = [(field.name, type(field.dataType)) for field in found.elementType.fields]
    return (
        len(fields) == 2 and fields[0] == ("key", StringType) and fields[1][0] == "value" and (fields[1][1] in _BINARY)
    )
