"""Write records from quarantine into a topic, each once, however often that is begun.

A replay first initializes the transactional id of the quarantine at the other cluster: requests of an earlier replay
that are still in flight are refused from then on. Then it reads which records are there already, by a header that
every replayed record carries (`isthmus.replayed`), from where the topic ended when the first replay into it began. As
any open transaction hides later commits, its end is awaited.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Annotated, Final

from isthmus.deadline import Deadline
from isthmus.errors import PlanRefused
from isthmus.kafka.admin.brokers import describe_cluster
from isthmus.kafka.client import Client
from isthmus.kafka.log.leader import LogLeader
from isthmus.kafka.log.reading import OffsetRange
from isthmus.kafka.transactions.transaction import Transaction
from isthmus.ledger.documents.kinds import ReplayDocument
from isthmus.ledger.documents.recovery import ReplayBegin
from isthmus.ledger.log import LedgerWriter
from isthmus.links.writers import build_undecided, owners_in
from isthmus.local.operator import operator
from isthmus.memory.links import now_ms, recollect
from isthmus.model.kafka.log import LogRange
from isthmus.model.kafka.topic import TopicDescription
from isthmus.model.links.recovery import SetAside, quarantine_of
from isthmus.model.naming import TargetTopic
from isthmus.model.text.plain import PlainValue, TextOrNull, null_if_negative
from isthmus.recovery.quarantine import Quarantined, Row, committed_records, parcels, read_quarantined
from isthmus.recovery.sides import find_topic, logs_of

REPLAYED: Final = "isthmus.replayed"
_PATIENCE_S: Final = 60.0
_LOOK_S: Final = 0.2
_WRITE_S: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantinedPartition(PlainValue):
    """The records of a partition that were set aside.

    The records in the quarantine of a topic from one partition, of one kind and one producer. Of dead letters it is the
    topic for these of one `link`, and their offsets and `topic_id` are the source's; `replayed_records` is how many of
    them were replayed, null for all others.
    """

    cluster: str
    topic: TargetTopic
    quarantine: str
    link: TextOrNull = ""
    partition: int
    kind: SetAside
    producer_id: Annotated[int, "producer", null_if_negative]
    records: int
    replayed: Annotated[int, "replayed_records", null_if_negative] = -1
    offset_first: int
    offset_last: int
    topic_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedPartition(PlainValue):
    """The records of a partition that were written, and those that were there already.

    Of dead letters also those that the present transform leaves out, and those for which it fails again, with the
    `reason` of the first.
    """

    partition: int
    written: Annotated[int, "written_records"]
    present: Annotated[int, "present_records"]
    left_out: Annotated[int, "left_out_records"] = 0
    failed: Annotated[int, "failed_records"] = 0
    reason: TextOrNull = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineFilter:
    """The records of a quarantine to select: of a kind, and of one producer if that is given."""

    kind: SetAside = SetAside.DIVERGED
    producer_id: int | None = None

    def takes(self, record: Quarantined) -> bool:
        """Whether a record is selected."""
        return record.kind is self.kind and self.producer_id in (None, record.producer_id)


async def quarantine_holds(target: Client, topic: TargetTopic) -> tuple[QuarantinedPartition, ...]:
    """Count the records that are set aside of a topic.

    :raises ClusterError: The quarantine cannot be read.
    """
    there = await find_topic(target, quarantine_of(topic))
    found: list[QuarantinedPartition] = []
    for partition in range(0 if there is None else there.partition_count):
        counts: Counter[tuple[str, SetAside, int]] = Counter()
        extents: dict[tuple[str, SetAside, int], tuple[int, int]] = {}
        async with aclosing(read_quarantined(target, quarantine_of(topic), partition)) as records:
            async for each in records:
                key = each.topic_id, each.kind, each.producer_id
                first, last = extents.get(key, (each.offset, each.offset))
                extents[key] = min(first, each.offset), max(last, each.offset)
                counts[key] += 1
        for (topic_id, kind, producer_id), (first, last) in extents.items():
            found.append(
                QuarantinedPartition(
                    cluster=target.cluster.alias,
                    topic=topic,
                    quarantine=quarantine_of(topic),
                    partition=partition,
                    topic_id=topic_id,
                    kind=kind,
                    producer_id=producer_id,
                    records=counts[topic_id, kind, producer_id],
                    offset_first=first,
                    offset_last=last,
                )
            )
    return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayer:
    """Replays the records set aside of `topic` at the target of `link` into a topic of the cluster of `destination`.
    Open transactions there are waited for up to `patience_s`.
    """

    link: str
    target: Client
    destination: Client
    topic: TargetTopic
    into: str
    selected: QuarantineFilter = QuarantineFilter()
    on_step: Callable[[str], None] = lambda _: None
    patience_s: float = _PATIENCE_S

    async def replay(self, *, dry_run: bool = False) -> tuple[ReplayedPartition, ...]:
        """Write the records that are not there yet; none where none were set aside of the topic. With `dry_run` only
        count them, as far as no open transaction hides them.

        :raises GateNotMet: A transaction in the other topic does not end.
        :raises PlanRefused: The other topic is not there, or has fewer partitions.
        :raises ClusterError: A cluster cannot be read or written; a repeated call continues.
        """
        there = await find_topic(self.target, quarantine_of(self.topic))
        if there is None:
            return ()
        into = await find_destination(self.destination, self.into, there)
        transaction = Transaction(self.destination, f"isthmus.{self.link}.replay.{self.topic}")
        if not dry_run:
            await transaction.initialize()
        begins = await self._begins(into, dry_run=dry_run)
        looking = (
            logs_of(self.destination, into) if dry_run else self._await_decided(into, range(there.partition_count))
        )
        logs = await looking
        found = []
        for partition in range(there.partition_count):
            self.on_step(f"{self.topic}: partition {partition + 1} of {there.partition_count}")
            log, begin = logs[partition], begins.get(partition, 0)
            span = OffsetRange(self.into, partition, max(begin, log.start), log.stable_end)
            found.append(await self._replay(span, None if dry_run else transaction))
        if any(each.written for each in found) and not dry_run:
            # Readers of committed records see all of them when this returns.
            await transaction.wait_for_end(commit=True)
        return tuple(found)

    async def _await_decided(self, into: TopicDescription, partitions: Collection[int]) -> Mapping[int, LogRange]:
        """Return the logs of the other topic, once all their present records are committed or aborted: records replayed
        earlier may be among them.
        """
        before = await logs_of(self.destination, into)
        deadline = Deadline(self.patience_s)
        while True:
            logs = await logs_of(self.destination, into)
            held = [(self.into, each) for each in partitions if logs[each].stable_end < before[each].end]
            if not held:
                return logs
            if deadline.has_passed:
                raise build_undecided(self.destination, held, await owners_in(self.destination, held))
            await asyncio.sleep(_LOOK_S)

    async def _begins(self, into: TopicDescription, *, dry_run: bool) -> Mapping[int, int]:
        """Return from where on the other topic may hold replayed records; written down before the first is written."""
        cluster_id = (await describe_cluster(self.destination)).cluster_id
        known = await recollect(self.link, self.target)
        document = ReplayDocument(
            link=self.link,
            topic=self.topic,
            cluster_id=cluster_id,
            into=f"{self.into}@{into.topic_id}",
            begins=tuple(
                ReplayBegin(number, log.end) for number, log in sorted((await logs_of(self.destination, into)).items())
            ),
            by=operator(),
            at_ms=now_ms(),
        )
        before = known.documents.get(document.key)
        if isinstance(before, ReplayDocument):
            return {each.partition: each.offset for each in before.begins}
        if not dry_run:
            writer = LedgerWriter(self.target)
            try:
                await writer.append([document])
            finally:
                writer.close()
        return {each.partition: each.offset for each in document.begins}

    async def _replay(self, span: OffsetRange, transaction: Transaction | None) -> ReplayedPartition:
        present, partition = await self._present(span), span.partition
        rows: list[Row] = []
        count = 0
        async with aclosing(read_quarantined(self.target, quarantine_of(self.topic), partition)) as records:
            async for each in records:
                if self.selected.takes(each):
                    count += 1
                    if self._mark(each) not in present:
                        rows.append(self._row(each))
        if transaction is not None and rows:
            leader = LogLeader(self.destination, (self.into, partition))
            transaction.continue_at(0)
            try:
                for parcel in parcels(rows):
                    await transaction.write(leader, parcel, term_s=_WRITE_S)
            finally:
                leader.close()
        return ReplayedPartition(partition=partition, written=len(rows), present=count - len(rows))

    async def _present(self, span: OffsetRange) -> frozenset[bytes]:
        marks: set[bytes] = set()
        async with aclosing(committed_records(self.destination, span)) as batches:
            async for _, records in batches:
                for record in records:
                    marks.update(value for name, value in record.headers if name == REPLAYED and value is not None)
        return frozenset(marks)

    def _mark(self, each: Quarantined) -> bytes:
        """Return the place of a record, and the id of its topic: no other record has the same."""
        return f"{self.topic}-{each.partition}@{each.offset} {each.topic_id}".encode()

    def _row(self, each: Quarantined) -> Row:
        return each.timestamp, each.key, each.value, [*each.headers, (REPLAYED, self._mark(each))]


async def find_destination(client: Client, name: str, there: TopicDescription | None = None) -> TopicDescription:
    """Return the topic that gets what was set aside; all of the topic `there`, if that is given.

    :raises PlanRefused: It is not there, or has fewer partitions.
    :raises ClusterError: It cannot be described.
    """
    alias = client.cluster.alias
    into = await find_topic(client, name)
    if into is None:
        raise PlanRefused(f"{alias} has no topic {name}", hint="Create it, or name another one: --into.")
    if there is not None and into.partition_count < there.partition_count:
        raise PlanRefused(
            f"{name} of {alias} has {into.partition_count} partitions, and records of "
            f"{there.partition_count} were set aside",
            hint=f"Records keep their partition. Add partitions to {name}, or name another topic: --into.",
        )
    return into
