"""The topic of Kafka Connect in which MirrorMaker 2 stores its positions, which may be shared with other connectors."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import aclosing
from dataclasses import dataclass

from isthmus.engine.batches.rebatch import records_of
from isthmus.errors import PlanRefused
from isthmus.kafka import codes
from isthmus.kafka.client import Client
from isthmus.kafka.log.reading import LogReader, OffsetRange
from isthmus.mirrormaker.predecessor import Predecessor, Progress, progress_of
from isthmus.model.kafka.log import LogRange
from isthmus.model.kafka.rights import on_topic as topic_right
from isthmus.model.naming import SourceTopicPartition, TargetTopic, TargetTopicPartition


@dataclass(frozen=True, slots=True)
class KeptPositions:
    """The positions in such a topic: the next offset of each partition of the source, and the aliases of other sources
    that have positions as well. If several connectors have one for the same partition, as after a renaming,
    `committed` is the lowest and `furthest` the highest.
    """

    committed: Mapping[SourceTopicPartition, int]
    furthest: Mapping[SourceTopicPartition, int]
    others: frozenset[str] = frozenset()


class PositionsTopic:
    """Reads the positions of MirrorMaker 2's connectors, and not those of others."""

    def __init__(self, target: Client, predecessor: Predecessor) -> None:
        self._target, self._predecessor = target, predecessor
        self._reader = LogReader(target)

    @property
    def name(self) -> TargetTopic:
        return TargetTopic(self._predecessor.offsets_topic)

    async def partitions(self) -> list[TargetTopicPartition]:
        """List the partitions of the topic.

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

    async def read(self, logs: Mapping[TargetTopicPartition, LogRange]) -> KeptPositions:
        """Read the positions in the logs up to their stable ends. For a first take-over the lowest one counts: records
        beyond it are found by content.

        :raises ClusterError: They cannot be read.
        """
        found: dict[tuple[str, SourceTopicPartition], int | None] = {}
        others = set[str]()
        for key in self._find_own(logs):
            async with aclosing(self._progress(OffsetRange(*key, logs[key].start, logs[key].stable_end))) as positions:
                async for progress in positions:
                    if progress.source_alias == self._predecessor.source_alias:
                        # All records of one connector and partition are in one partition of the topic, in order.
                        found[progress.connector, progress.key] = progress.next_offset
                    else:
                        others.add(progress.source_alias)
        committed, furthest = dict[SourceTopicPartition, int](), dict[SourceTopicPartition, int]()
        for (_, copied), offset in found.items():
            if offset is not None:
                committed[copied] = min(offset, committed.get(copied, offset))
                furthest[copied] = max(offset, furthest.get(copied, offset))
        return KeptPositions(committed, furthest, frozenset(others))

    async def of_others(
        self, before: Mapping[TargetTopicPartition, LogRange], after: Mapping[TargetTopicPartition, LogRange]
    ) -> Collection[TargetTopicPartition]:
        """Find the partitions of the topic in which no position of this flow became stable in between.

        :raises ClusterError: They cannot be read.
        """
        found = []
        for key in self._find_own(after):
            added = OffsetRange(*key, before[key].stable_end, after[key].stable_end)
            async with aclosing(self._progress(added)) as positions:
                if not [each async for each in positions if each.source_alias == self._predecessor.source_alias]:
                    found.append(key)
        return found

    def _find_own(self, logs: Mapping[TargetTopicPartition, LogRange]) -> list[TargetTopicPartition]:
        return [key for key in logs if key[0] == self.name]

    async def _progress(self, span: OffsetRange) -> AsyncGenerator[Progress, None]:
        if span.is_empty:
            return
        async with aclosing(self._reader.read(span)) as answers:
            async for stored in answers:
                for batch, is_aborted in stored:
                    for record in () if is_aborted or batch.is_control else records_of(batch):
                        progress = progress_of(record.key, record.value)
                        if progress is not None:
                            yield progress
