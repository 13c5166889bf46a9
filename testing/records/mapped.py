"""Mapped copies made by hand: the same records on both sides with those of others in between, and the map of them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from isthmus.kafka.client import Client
from isthmus.ledger.documents.kinds import MapDocument, TransformDocument
from isthmus.ledger.log import LedgerWriter
from isthmus.ledger.topic import on_topic
from isthmus.model.naming import TargetTopic
from isthmus.model.offsets import Cursor
from isthmus.model.translation import MappedRange
from testing.records.topics import Brokers, Given, as_admin, produce


class HandMade:
    """One partition that is copied by hand. What was done is known to the ledger once it is told, and that a transform
    `failed` for so many records.
    """

    def __init__(self, source: Brokers, target: Brokers, link: str, topic: str, *, partition: int = 0) -> None:
        self.ranges: list[MappedRange] = []
        self.source_end = self.target_end = self.decided_end = self.failed = 0
        self.transforms: list[tuple[int, int, str]] = []
        self._source, self._target = source, target
        self._link, self._topic, self._partition = link, topic, partition

    def copy(self, records: Sequence[Given], *, at_target: Sequence[Given] | None = None) -> None:
        """Write records to the source, and as many to the target: the same, or others in their place."""
        there = records if at_target is None else at_target
        assert len(there) == len(records)
        self.ranges.append(MappedRange(self.source_end, self.target_end, len(records)))
        self.at_source(records)
        self.at_target(there)
        self.decided_end = self.source_end

    def leave_out(self, records: Sequence[Given]) -> None:
        """Write records to the source that a transform leaves out."""
        self.at_source(records)
        self.decided_end = self.source_end

    def made_by(self, transform: str) -> None:
        """Have what comes from now on made by the transform of this id."""
        self.transforms.append((self.source_end, self.target_end, transform))

    def at_source(self, records: Sequence[Given]) -> None:
        """Write records to the source that are not copied."""
        produce(self._source, self._topic, records, partition=self._partition)
        self.source_end += len(records)

    def at_target(self, records: Sequence[Given]) -> None:
        """Write records to the target that belong to others."""
        produce(self._target, self._topic, records, partition=self._partition)
        self.target_end += len(records)

    async def tell(self) -> None:
        """Write down what was copied. All that the source has behind it is still to come."""
        ranges = tuple(self.ranges)
        last = ranges[-1] if ranges else MappedRange(0, self.target_end, 0)
        end, records = max(last.source_end, self.decided_end), sum(one.length for one in ranges)
        made = [
            TransformDocument(
                link=self._link,
                topic=TargetTopic(self._topic),
                partition=self._partition,
                ordinal=0,
                transform=transform,
                source_offset=source_offset,
                target_offset=target_offset,
                rewound=number,
                taken_at=number,
            )
            for number, (source_offset, target_offset, transform) in enumerate(self.transforms)
        ]
        document = MapDocument(
            link=self._link,
            topic=TargetTopic(self._topic),
            partition=self._partition,
            segment="by.hand",
            ordinal_begin=0,
            ranges=ranges,
            cursor=Cursor(
                end,
                records,
                last.target_end,
                rewound=len(made),
                left_out=end - last.source_end,
                skipped=self.failed,
            ),
        )
        async with Client(as_admin(self._target)) as client:
            writer = LedgerWriter(client)
            try:
                await on_topic(client, lambda: writer.append([*made, document]), replication_factor=1)
            finally:
                writer.close()

    def told(self) -> None:
        """`tell`, where nothing else runs."""
        asyncio.run(self.tell())
