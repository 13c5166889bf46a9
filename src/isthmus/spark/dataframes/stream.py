"""Reads logs as a stream of micro-batches, whose offsets Spark keeps in its checkpoint. Needs Spark 4.2.

Spark asks for offsets in a process of its own beside the driver, and again and again while nothing is new: so
`latestOffset` waits for news for a moment before it answers.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Coroutine, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from isthmus.deadline import Deadline
from isthmus.errors import ClusterError, Unreachable
from isthmus.kafka.client import Client
from isthmus.kafka.log.listoffsets import PartitionKey
from isthmus.kafka.log.offsets import log_ranges, may_pass
from isthmus.kafka.outcomes import Outcomes
from isthmus.kafka.session import ClientSession
from isthmus.model.cluster import Cluster
from isthmus.model.kafka.log import LogRange
from isthmus.spark.dataframes.hints import showing_hints
from isthmus.spark.dataframes.planning import Frontier, LogSight, advance, are_different, spans_between
from isthmus.spark.dataframes.reading import SILENCE_S, RangeGroup, RowReader
from isthmus.spark.dataframes.selection import ReadSettings
from isthmus.spark.dataframes.survey import Survey, readable_end, resolve, survey
from isthmus.spark.dataframes.watch import LogWatch
from isthmus.spark.ranges import NumberedRange, group_ranges

if TYPE_CHECKING:
    import pyarrow as pa

_PAUSES_S: Final = (0.02, 0.05, 0.08, 0.1)
"""How long to wait between looks while nothing is new: a quarter of a second together."""
_LOOK_S: Final = 0.06
"""How long one look waits for answers. Those that take longer are met by a later look."""
_GROUP_OFFSETS: Final = 1_000
"""Small ranges of several partitions are read by one task, up to so many offsets: a task costs Spark some 30 ms."""
_FIRST_S: Final = 10.0
"""How long to wait for the first answers of all leaders: a trigger that looks only once would take silence for the end
of logs."""
_CONFIRM_S: Final = 2.0
"""A broker that lags behind may name the former id of a topic, or the next one, before others do."""
_ONCE_S: Final = 0.1
_ABSENCE_S: Final = 30.0
ResultT = TypeVar("ResultT")


class _Runtime(NamedTuple):
    """What asks the cluster, in the process that plans micro-batches."""

    loop: asyncio.AbstractEventLoop
    session: ClientSession
    client: Client
    watch: LogWatch
    first: Deadline


class LogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans micro-batches in Spark's planning process, and reads them in its tasks. It is pickled for these."""

    def __init__(self, cluster: Cluster, settings: ReadSettings, names: Sequence[str]) -> None:
        self._cluster = cluster
        self._settings = settings
        self._rows = RowReader.of(cluster, settings, names)
        self._initial: dict[str, Any] | None = None
        self._target: Survey | None = None
        self._is_target_checked = False
        self._odd: dict[tuple[str, int | None], float] = {}
        self._runtime: _Runtime | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_runtime": None}

    def getDefaultReadLimit(self) -> ReadLimit:
        most = self._settings.offsets_max
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def initialOffset(self) -> dict[str, Any]:
        # Spark asks twice, and has to get the same answer.
        if self._initial is None:
            self._initial = self._run(self._find_initial()).as_dict()
        return self._initial

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._run(survey(self._running.client, self._settings.subscription))

    @showing_hints()
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        read = Frontier.parse(start)
        offsets_max = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        find = self._find_news(read, offsets_max) if self._target is None else self._approach(read, offsets_max)
        found = self._run(find)
        if found == read:
            return start
        return (found.first_from(read) if start == self._initial else found).as_dict()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        if self._runtime is None:
            return None
        watch, target = self._runtime.watch, self._target
        ids, ends = (watch.ids, watch.ends) if target is None else (target.ids, self._ends_of(target))
        return Frontier(ids, {key: end for key, end in ends.items() if key[0] in ids}).as_dict()

    @showing_hints()
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        reached = Frontier.parse(end)
        if reached.is_of_spark and start == self._initial:
            raise ClusterError(
                "the first micro-batch of this query was begun by Spark's own source, and not finished: where it began "
                "is not in the part of the checkpoint that other sources are given",
                hint="Finish it with Spark's own source, or begin with a new checkpoint.",
            )
        spans = spans_between(Frontier.parse(start), reached)
        numbered: list[tuple[NumberedRange, int]] = [
            ((number, self._cluster.alias, span), span.offset_end - span.offset_begin)
            for number, span in enumerate(spans)
        ]
        return [
            RangeGroup(tuple(group), {span.topic: reached.ids[span.topic] for _, _, span in group})
            for group in group_ranges(numbered, group_bytes=_GROUP_OFFSETS)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RangeGroup)  # noqa: S101  # Spark gives back what it was given
        return self._rows.read(partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Positions are in the checkpoint alone."""

    def stop(self) -> None:
        if self._runtime is not None:
            loop, session, _, watch, _ = self._runtime
            loop.run_until_complete(watch.aclose())
            loop.run_until_complete(session.aclose())
            loop.close()
            self._runtime = None

    @property
    def _running(self) -> _Runtime:
        if self._runtime is None:
            loop, session = asyncio.new_event_loop(), ClientSession()
            client = session.client(self._cluster)
            watch = LogWatch(client, self._settings.subscription, self._settings.isolation)
            self._runtime = _Runtime(loop, session, client, watch, Deadline(_FIRST_S))
        return self._runtime

    @showing_hints()
    def _run(self, work: Coroutine[Any, Any, ResultT]) -> ResultT:
        return self._running.loop.run_until_complete(work)

    async def _find_initial(self) -> Frontier:
        """Find where the options have the query begin.

        :raises ClusterError: They name an offset behind the end of its log, unless failOnDataLoss is false.
        """
        client, settings = self._running.client, self._settings
        found = await survey(client, settings.subscription)
        offsets = await resolve(
            client,
            settings.starting,
            found.logs,
            isolation=settings.isolation,
            latest_if_late=settings.latest_if_late,
        )
        for key in sorted(offsets) if not settings.starting.is_time else ():
            end = found.logs[key].end
            if offsets[key] > end and settings.fails_on_loss:
                raise ClusterError(
                    f"{key[0]}-{key[1]} of {self._cluster.alias} ends at {end}, before the offset {offsets[key]} that "
                    "startingOffsets names",
                    hint="Name an offset up to there, or set failOnDataLoss to false to begin at the end.",
                )
            offsets[key] = min(offsets[key], end)
        return Frontier(found.ids, offsets)

    def _ends_of(self, found: Survey) -> dict[PartitionKey, int]:
        return {key: readable_end(log, self._settings.isolation) for key, log in found.logs.items()}

    async def _approach(self, read: Frontier, offsets_max: int | None) -> Frontier:
        """Find the next micro-batch on the way to the target of `Trigger.AvailableNow`.

        :raises ClusterError: Nobody answers for what is left to read.
        """
        if not self._is_target_checked:
            self._target = await self._checked_target(read)
            self._is_target_checked = True
        target = self._target
        assert target is not None  # noqa: S101  # only called with one
        ends = self._ends_of(target)
        left = {key for key, end in ends.items() if read.offsets.get(key) != end}
        known = {key: log.start for key, log in target.logs.items() if key not in left}
        deadline = Deadline(SILENCE_S)
        while True:
            found = await self._ranges(left)
            starts = {**known, **{key: log.start for key, log in found.values.items()}}
            reached = self._advance(read, LogSight(target.ids, frozenset(ends), starts, ends), offsets_max)
            if reached != read or not found.errors:
                return reached
            # Without an answer this is not the end.
            if deadline.has_passed:
                raise next(iter(found.errors.values()))
            await asyncio.sleep(_PAUSES_S[-1])

    async def _ranges(self, partitions: Collection[PartitionKey]) -> Outcomes[PartitionKey, LogRange]:
        """Ask where logs begin and end, once.

        :raises ClusterError: An error that does not pass.
        """
        try:
            found = await log_ranges(self._running.client, partitions, timeout_s=_ONCE_S)
        except ClusterError as error:
            found = Outcomes({}, dict.fromkeys(partitions, error))
        lasting = [error for error in found.errors.values() if not may_pass(error)]
        if lasting:
            raise lasting[0]
        return found

    async def _checked_target(self, read: Frontier) -> Survey:
        """Return the target, with all that was read before in it.

        :raises ClusterError: A topic or the end of a log is gone, and does not come back, unless failOnDataLoss is
            false.
        """
        target, deadline = self._target, Deadline(_ABSENCE_S)
        assert target is not None  # noqa: S101  # only called with one
        while self._settings.fails_on_loss and (gone := self._gone_from(target, read)):
            if deadline.has_passed:
                raise _report_gone(gone[0], read.offsets[gone[0]])
            await asyncio.sleep(1.0)
            target = await survey(self._running.client, self._settings.subscription)
        return target

    def _gone_from(self, found: Survey, read: Frontier) -> list[PartitionKey]:
        return sorted(
            key
            for key, offset in read.offsets.items()
            if self._settings.subscription.selects(*key, is_internal=False)
            and not are_different(read.ids.get(key[0], ""), found.ids.get(key[0], ""))
            and (key not in found.logs or found.logs[key].end < offset)
        )

    async def _find_news(self, read: Frontier, offsets_max: int | None) -> Frontier:
        """Find the next micro-batch, or wait for news for a moment."""
        watch = self._running.watch
        for pause_s in self._pauses():
            await watch.look(_LOOK_S)
            sight = await self._drop_stale(read, LogSight(watch.ids, watch.partitions, {}, watch.ends))
            new = [key for key in sight.partitions if _is_new(read, sight, key)]
            starts = await watch.starts(new, _LOOK_S) if new else {}
            found = self._advance(read, LogSight(sight.ids, sight.partitions, starts, sight.ends), offsets_max)
            if found != read:
                return found
            await asyncio.sleep(pause_s)
        if watch.silent_s > SILENCE_S:
            raise watch.error or Unreachable(f"{self._cluster.alias} does not answer", cluster=self._cluster.alias)
        return read

    def _pauses(self) -> Iterator[float]:
        yield from _PAUSES_S
        while not (self._running.watch.is_complete or self._running.first.has_passed):
            yield _PAUSES_S[-1]
        yield 0.0

    def _advance(self, read: Frontier, sight: LogSight, offsets_max: int | None) -> Frontier:
        return advance(read, sight, offsets_max=offsets_max, fails_on_loss=self._settings.fails_on_loss)

    async def _drop_stale(self, read: Frontier, sight: LogSight) -> LogSight:
        """Return a sight without what may be the answer of a broker that lags behind.

        :raises ClusterError: A topic or the end of a log has been gone for too long, unless failOnDataLoss is false.
        """
        now = time.monotonic()
        others = {topic for topic, topic_id in sight.ids.items() if are_different(read.ids.get(topic, ""), topic_id)}
        selects = self._settings.subscription.selects
        absent = {key for key in read.offsets if key not in sight.partitions and selects(*key, is_internal=False)}
        if not self._running.watch.is_informed:
            absent = set()
        behind = {key for key, end in sight.ends.items() if end < read.offsets.get(key, 0) and key[0] not in others}
        odd: set[tuple[str, int | None]] = {(topic, None) for topic in others} | absent | behind
        self._odd = {each: self._odd.get(each, now) for each in odd}
        gone = sorted(key for key in absent | behind if now - self._odd[key] > _ABSENCE_S)
        if gone and self._settings.fails_on_loss:
            await self._require_gone(gone, absent, read)
        unsure = {topic for topic in others if now - self._odd[topic, None] < _CONFIRM_S}
        return LogSight(
            {topic: topic_id for topic, topic_id in sight.ids.items() if topic not in unsure},
            frozenset(key for key in sight.partitions if key[0] not in unsure),
            sight.starts,
            sight.ends,
        )

    async def _require_gone(
        self, gone: Collection[PartitionKey], absent: Collection[PartitionKey], read: Frontier
    ) -> None:
        """See whether a log goes on behind what can be read of it, as with an open transaction.

        :raises ClusterError: One does not.
        """
        found = await self._ranges([key for key in gone if key not in absent])
        for key in gone:
            if key in absent or (key in found.values and found.values[key].end < read.offsets[key]):
                raise _report_gone(key, read.offsets[key])
            self._odd[key] = time.monotonic()


def _is_new(read: Frontier, sight: LogSight, key: PartitionKey) -> bool:
    """Whether there may be something to read in a partition, or it has to be placed."""
    if key not in read.offsets or read.ids.get(key[0], "") != sight.ids.get(key[0], ""):
        return True
    return sight.ends.get(key, 0) > read.offsets[key]


def _report_gone(key: PartitionKey, offset: int) -> ClusterError:
    return ClusterError(
        f"{key[0]}-{key[1]} has not been there for {_ABSENCE_S:.0f} s, or its log ended before offset {offset}, up to "
        "which it was read: was the topic deleted, or did a replica lead that was not in sync?",
        hint="Set failOnDataLoss to false to wait for it for ever, or begin with a new checkpoint.",
    )
