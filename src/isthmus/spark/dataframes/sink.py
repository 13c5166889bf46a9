"""The sink of `df.write.format("isthmus")`, and what it shares with that of streams."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from isthmus.errors import ConfigError
from isthmus.model.cluster import Cluster
from isthmus.spark.dataframes.hints import showing_hints
from isthmus.spark.dataframes.options import GivenOptions, find_cluster
from isthmus.spark.dataframes.sinkpositions import EpochIdentity
from isthmus.spark.dataframes.sinkschema import SinkSettings, check_sink_schema, read_settings
from isthmus.spark.dataframes.sinktask import TaskOutcome, TaskSettings, abort_epoch, commit_epoch, write_task

if TYPE_CHECKING:
    import pyarrow as pa

_MS_PER_S: Final = 1_000
_FIRST_EPOCH: Final = 0


@dataclass(frozen=True)
class SinkMessage(WriterCommitMessage):
    """What a task tells the driver."""

    outcome: TaskOutcome


class SinkSetup:
    """The cluster and the settings of a sink, as its options state them."""

    def __init__(
        self, options: Mapping[str, str], clusters: Mapping[str, Cluster], schema: StructType, *, overwrite: bool
    ) -> None:
        with showing_hints():
            given = GivenOptions(options)
            self.settings: SinkSettings = read_settings(given)
            if overwrite:
                raise ConfigError(
                    "a sink cannot overwrite: records in Kafka stay what they are",
                    field="mode",
                    hint='Use mode("append"); for streams outputMode("append") or outputMode("update").',
                )
            check_sink_schema(schema, self.settings)
            self.cluster = find_cluster(given, clusters)
        self.job = uuid.uuid4().hex

    def write(self, identity: EpochIdentity, rows: Iterator[pa.RecordBatch]) -> SinkMessage:
        """Write the rows of the task that runs here."""
        context = task_context()
        settings = TaskSettings(
            topic=self.settings.topic,
            codec=self.settings.codec,
            timeout_ms=self.settings.timeout_s * _MS_PER_S,
            commits=self.settings.commits_tasks,
        )
        place = context.partitionId(), context.attemptNumber()
        with showing_hints():
            return SinkMessage(write_task(self.cluster, identity, settings, place, rows))

    def commit(self, messages: Sequence[WriterCommitMessage | None], *, forgets: bool = False) -> None:
        with showing_hints():
            outcomes = outcomes_of(messages)
            commit_epoch(self.cluster, outcomes, forgets=forgets, in_parts=self.settings.commits_tasks)

    def abort(
        self,
        messages: Sequence[WriterCommitMessage | None],
        *,
        names: Collection[tuple[str, str]] = (),
        forgets: bool = False,
    ) -> None:
        abort_epoch(self.cluster, outcomes_of(messages), names=names, forgets=forgets)


def task_context() -> TaskContext:
    context = TaskContext.get()
    assert context is not None  # noqa: S101  # tasks have one
    return context


def outcomes_of(messages: Sequence[WriterCommitMessage | None]) -> list[TaskOutcome]:
    """Return what tasks have done, as far as they came to their end."""
    return [each.outcome for each in messages if isinstance(each, SinkMessage)]


class BatchSinkWriter(DataSourceArrowWriter):
    """Writes a DataFrame as one epoch. Without a name nobody can write it again: every call is a job of its own."""

    def __init__(
        self, options: Mapping[str, str], clusters: Mapping[str, Cluster], schema: StructType, *, overwrite: bool
    ) -> None:
        self._setup = SinkSetup(options, clusters, schema, overwrite=overwrite)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> SinkMessage:
        setup = self._setup
        epoch = setup.settings.epoch
        identity = EpochIdentity(
            name=setup.settings.name or setup.job,
            owner="",
            epoch=_FIRST_EPOCH if epoch is None else epoch,
            job=setup.job,
            consecutive=False,
            takes_over=setup.settings.takes_over,
        )
        return setup.write(identity, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self._setup.commit(messages, forgets=not self._setup.settings.name)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        setup = self._setup
        name = setup.settings.name
        # Tasks that were killed have left no message.
        setup.abort(messages, names=[(name or setup.job, setup.job)], forgets=not name)
