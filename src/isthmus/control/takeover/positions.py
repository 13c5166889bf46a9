"""The topic of Kafka Connect in which MirrorMaker 2 keeps its positions, which connectors of others may share."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import aclosing

from isthmus.cluster.reading import LogReader, OffsetRange
from isthmus.errors import PlanRefused
from isthmus.lane.rebatch import records_of
from isthmus.model.log import LogRange
from isthmus.model.predecessor import Predecessor, Progress, progress_of
from isthmus.model.rights import on_topic as topic_right
from isthmus.wire import codes
from isthmus.wire.client import Client
from isthmus.wire.offsets import PartitionKey


class PositionsTopic:
    """Reads what a flow of MirrorMaker 2 wrote there, and nothing that others did."""

    def __init__(self, target: Client, predecessor: Predecessor) -> None:
        self._target, self._predecessor = target, predecessor
        self._reader = LogReader(target)

    @property
    def name(self) -> str:
        return self._predecessor.offsets_topic

    async def partitions(self) -> list[PartitionKey]:
        """All of them.

        :raises PlanRefused: There is no such topic.
        :raises ClusterError: It cannot be described.
        """
        described = (await self._target.metadata([self.name])).topics[self.name]
        if described.error_code == codes.UNKNOWN_TOPIC_OR_PARTITION:
            raise PlanRefused(
                f"{self._target.cluster.alias} has no topic {self.name}, in which MirrorMaker 2 keeps its positions",
                hint="Name the topic that is offset.storage.topic of its workers: --offsets-topic.",
            )
        codes.raise_for_code(
            described.error_code,
            f"reading {self.name}",
            topic_right("READ", self.name),
            cluster=self._target.cluster.alias,
        )
        return [(self.name, partition.partition) for partition in described.partitions]

    async def committed(self, logs: Mapping[PartitionKey, LogRange]) -> dict[PartitionKey, int]:
        """The next offset of each partition of the source, as the logs show it up to their stable ends.

        :raises ClusterError: They cannot be read.
        """
        found: dict[PartitionKey, int] = {}
        for key in self._own(logs):
            async with aclosing(self._progress(OffsetRange(*key, logs[key].start, logs[key].stable_end))) as positions:
                async for progress in positions:
                    if progress.next_offset is None:
                        found.pop(progress.key, None)
                    else:
                        found[progress.key] = progress.next_offset
        return found

    async def of_others(
        self, before: Mapping[PartitionKey, LogRange], after: Mapping[PartitionKey, LogRange]
    ) -> Collection[PartitionKey]:
        """The partitions of the topic in which nothing of this flow became stable in between.

        :raises ClusterError: They cannot be read.
        """
        found = []
        for key in self._own(after):
            added = OffsetRange(*key, before[key].stable_end, after[key].stable_end)
            async with aclosing(self._progress(added)) as positions:
                if await anext(positions, None) is None:
                    found.append(key)
        return found

    def _own(self, logs: Mapping[PartitionKey, LogRange]) -> list[PartitionKey]:
        return [key for key in logs if key[0] == self.name]

    async def _progress(self, span: OffsetRange) -> AsyncGenerator[Progress, None]:
        if span.is_empty:
            return
        async with aclosing(self._reader.read(span)) as answers:
            async for stored in answers:
                for batch, is_aborted in stored:
                    for record in () if is_aborted or batch.is_control else records_of(batch):
                        progress = progress_of(record.key, record.value, self._predecessor.source_alias)
                        if progress is not None:
                            yield progress
