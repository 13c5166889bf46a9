"""Two clusters, and topics of records whose places and times are easy to tell."""

from __future__ import annotations

import asyncio
import json
import secrets
from dataclasses import replace
from typing import Any, Final

from pyspark.sql import SparkSession

from isthmus.kafka.client import Client
from isthmus.local import LocalCluster
from isthmus.model.cluster import SchemaRegistry
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.text.plain import plain
from isthmus.spark.compare.links import DiscrepancyKind, TopicVerdict, verify
from testing.records import topics
from testing.records.forgery import MARKER, Record, Tamper, append, forge, honest

RECORDS: Final = 100
KEYS: Final = 7
SECOND_MS: Final = 1000


def records(begin: int = 0, end: int = RECORDS) -> list[Record]:
    """The records from one offset up to another: that at offset n is n seconds into the first of September.

    Keys come again every few records; the last record deletes a key that no other has.
    """
    return [
        Record(
            topics.SEPTEMBER + n * SECOND_MS,
            b"last" if n == RECORDS - 1 else b"key-%d" % (n % KEYS),
            None if n == RECORDS - 1 else b"value %d" % n,
            (("h", b"%d" % n),),
        )
        for n in range(begin, end)
    ]


def without(*offsets: int) -> Tamper:
    """Write control records in place of the records at these offsets, as over holes of compaction."""

    def tamper(base: int, written: list[Record]) -> list[Record]:
        return [MARKER if base + n in offsets else record for n, record in enumerate(written)]

    return tamper


class Pair:
    """A source and a target; the source's schema `registry`, if it has one."""

    def __init__(self, spark: SparkSession, source: LocalCluster, target: LocalCluster) -> None:
        self.registry: SchemaRegistry | None = None
        self._spark = spark
        self.source, self.target = source, target

    def topic(self, stem: str, *, partitions: int = 1, at_target: bool = True, **configs: Any) -> str:
        """A new empty topic at both sides; `partitions` are the source's."""
        name = f"{stem}-{secrets.token_hex(4)}"
        topics.create(self.source, name, partitions=partitions, **configs)
        if at_target:
            topics.create(self.target, name)
        return name

    def produce(self, name: str, begin: int = 0, end: int = RECORDS, *, partition: int = 0, **settings: Any) -> None:
        """Write records to the source, ten in a batch."""
        given = [topics.Given(r.key, r.value, list(r.headers), r.timestamp) for r in records(begin, end)]
        topics.produce(self.source, name, given, partition=partition, **{"batch_num_messages": 10, **settings})

    def forge(self, name: str, tamper: Tamper = honest, *, anew: bool = False) -> None:
        forge(self.source, self.target, name, tamper, anew=anew)

    def append(self, cluster: LocalCluster, name: str, batch: bytes) -> None:
        """Write a batch to a partition."""

        async def write() -> None:
            async with Client(cluster.cluster()) as client:
                await append(client, name, batch)

        asyncio.run(write())

    def verify(self, *names: str, **options: Any) -> dict[str, TopicVerdict]:
        """The verdicts of topics that are copied under their own names."""
        return self.verify_into({name: name for name in names}, **options)

    def verify_into(self, given: dict[str, str], **options: Any) -> dict[str, TopicVerdict]:
        """The verdicts of topics by the names they have at the source."""
        named = {SourceTopic(own): TargetTopic(copy) for own, copy in given.items()}
        source = replace(self.source.cluster(), schema_registry=self.registry)
        verdict = verify(self._spark, source, self.target.cluster(), named, **options)
        json.dumps(plain(verdict))
        return {topic.source_topic: topic for topic in verdict.topics}


def found(verdict: TopicVerdict, partition: int = 0) -> list[tuple[DiscrepancyKind, int, int]]:
    """The findings of a partition without their details."""
    findings = verdict.partitions[partition].findings
    return [(one.kind, one.offset_begin, one.offset_end) for one in findings]
