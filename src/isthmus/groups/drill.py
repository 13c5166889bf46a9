"""Try a failover without one: what would a group read at the target if it continued there now?

A scratch group gets the positions the group would have at the target. The records behind them are read from there, and
compared with those the group still has to read at the source. For a distributor of a tree only records that it copies
itself count: the others come to its target from elsewhere, and are in the maps of others.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from isthmus.engine.batches.rebatch import Record, records_of
from isthmus.errors import ClusterError
from isthmus.groups.plan import GroupPlan, PositionPlan
from isthmus.groups.transaction import commit_outside
from isthmus.kafka.batches.batch import Batch
from isthmus.kafka.client import Client
from isthmus.kafka.groups.groups import CommittedOffsets, Positions, committed_offsets, delete_groups
from isthmus.kafka.log.offsets import log_ranges
from isthmus.kafka.log.reading import LogReader, OffsetRange
from isthmus.kafka.log.spans import spans_of
from isthmus.kafka.metadata import NO_TOPIC_ID
from isthmus.lanes.maps import LinkMaps
from isthmus.ledger.maps import LaneMap
from isthmus.model.copyflags import bit, is_done_with, is_to_copy
from isthmus.model.groupsettings import OWN_PREFIX
from isthmus.model.kafka.group import NO_OFFSET, Committed
from isthmus.model.kafka.log import LogRange
from isthmus.model.kafka.rights import grant, on_group
from isthmus.model.link import DistributorRole, Link
from isthmus.model.naming import SourceTopic, TargetTopic, TargetTopicPartition, TopicT
from isthmus.model.problem import Problem
from isthmus.model.text.plain import PlainValue, computed_field
from isthmus.model.text.wording import format_count
from isthmus.model.translation import Way
from isthmus.model.trees.switching import begin_of

_TOKEN_BYTES: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionDrill(PlainValue):
    """One partition. `compared` records were read on both sides from the group's position on.

    `skipped` are those of them the group would never see at the target, `read_again` those it would see a second time.
    `waiting` offsets are not at the target yet: they come with the mirror. Records that others write to a mapped
    partition are not counted, nor are those that a transform left out; what it changed is looked for by the map.
    """

    topic: SourceTopic
    partition: int
    source_position: int
    target_position: int
    compared: int
    skipped: int
    read_again: int
    waiting: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDrill(PlainValue):
    """The result of a failover for a group.

    `problem` is what could not be tried or cleaned up.
    """

    link: str
    group: str
    target_group: str
    way: Way
    not_mirrored: tuple[str, ...] = ()
    problem: Problem | None = None
    positions: tuple[PositionDrill, ...] = ()

    @computed_field(before="not_mirrored")
    def skipped(self) -> int:
        """Records the group would never see: has to be 0."""
        return sum(position.skipped for position in self.positions)

    @computed_field(before="not_mirrored")
    def read_again(self) -> int:
        """Records the group would see a second time."""
        return sum(position.read_again for position in self.positions)


async def drill(
    link: Link,
    plan: GroupPlan,
    source: Client,
    target: Client,
    maps: LinkMaps,
    *,
    records: int,
    on_step: Callable[[str], None] = lambda _: None,
) -> GroupDrill:
    """Try the failover of one group as it was just planned, whether it may be carried now or not. `on_step` is called
    with each step in words.

    :raises ClusterError: A cluster refused or did not answer.
    """
    able = {p.target_key: p for p in plan.positions if is_tried(p)}
    scratch = f"{OWN_PREFIX}drill.{secrets.token_hex(_TOKEN_BYTES)}"
    on_step(
        f"committing {format_count(len(able), 'position')} for the scratch group {scratch} at {target.cluster.alias}"
    )
    committed = await _commit_and_fetch(target, scratch, {key: _position(p) for key, p in able.items()})
    is_whole = bool(able) and all(p.translated is not None or p.target_topic is None for p in plan.positions)
    problem = None if is_whole else plan.problem
    if problem is None and link.distributor is not None and not able:
        hint = (
            "Name the distributor that copies from where its consumers read: --link; isthmus groups list has them all."
        )
        problem = Problem(f"{link.name} has no position of {plan.group}: its newest position comes another way", hint)
    try:
        on_step(f"comparing up to {format_count(records, 'record')} in {format_count(len(able), 'partition')}")
        found = await _compare_all(link, (source, target), able, committed, maps, records)
    finally:
        on_step("deleting the scratch group")
        error = (await delete_groups(target, [scratch])).errors.get(scratch) if able else None
    if error is not None:
        right = on_group("DELETE", f"{OWN_PREFIX}drill.*")
        hint = f"It goes after offsets.retention.minutes. {grant(right, target.cluster.alias, 'it goes at once then')}"
        problem = Problem(f"the scratch group {scratch} could not be deleted: {error}", hint)
    return GroupDrill(
        link=link.name,
        group=plan.group,
        target_group=plan.target_group,
        way=link.groups.way,
        positions=found,
        not_mirrored=tuple(sorted({p.topic for p in plan.positions if p.target_topic is None})),
        problem=problem,
    )


def is_tried(position: PositionPlan) -> bool:
    """Whether there are records to compare: a position at the source, and its translation at the target."""
    return position.translated is not None and position.source.offset != NO_OFFSET


def _position(plan: PositionPlan) -> Committed:
    return Committed(min(max(plan.translated or 0, plan.log_start or 0), plan.high_watermark or 0))


async def _commit_and_fetch(target: Client, scratch: str, positions: Positions[TargetTopic]) -> Positions[TargetTopic]:
    """Commit the positions for the scratch group, and return those that a consumer of it would begin with."""
    if not positions:
        return {}
    for error in (await commit_outside(target, {scratch: positions})).errors.values():
        raise error
    fetched: CommittedOffsets[TargetTopic] = await committed_offsets(target, [scratch])
    for error in fetched.errors.values():
        raise error
    return fetched.values[scratch]


async def _compare_all(
    link: Link,
    clients: tuple[Client, Client],
    able: Mapping[TargetTopicPartition, PositionPlan],
    committed: Positions[TargetTopic],
    maps: LinkMaps,
    records: int,
) -> tuple[PositionDrill, ...]:
    readers = LogReader(clients[0]), LogReader(clients[1])
    here = await _ranges(clients[0], [(p.topic, p.partition) for p in able.values()])
    there = await _ranges(clients[1], list(able))
    found = []
    for key, plan in sorted(able.items()):
        logs = here[plan.topic, plan.partition], there[key]
        lane = maps.of(key)
        if plan.is_mapped and lane is not None:
            at, is_changed = committed[key].offset, maps.is_changed(key)
            found.append(await _compare_mapped(link, readers, plan, at, logs, lane, records, is_changed=is_changed))
        elif not plan.is_mapped:
            found.append(await _compare(readers, plan, committed[key].offset, logs, records))
    return tuple(found)


async def _ranges(client: Client, keys: list[tuple[TopicT, int]]) -> Mapping[tuple[TopicT, int], LogRange]:
    outcome = await log_ranges(client, keys)
    errors: list[ClusterError] = list(outcome.errors.values())
    for error in errors:
        raise error
    return outcome.values


async def _compare(
    readers: tuple[LogReader, LogReader],
    plan: PositionPlan,
    position: int,
    logs: tuple[LogRange, LogRange],
    records: int,
) -> PositionDrill:
    """Compare a mirrored partition: same offsets on both sides show which record is which."""
    here, there = logs
    begin = max(plan.source.offset, here.start)
    end = min(here.stable_end, there.stable_end, begin + records)
    expected = await _read(readers[0], OffsetRange(plan.topic, plan.partition, begin, end))
    target_span = OffsetRange(plan.target_topic or "", plan.partition, position, max(end, position))
    seen = {record.offset: record for record in await _read(readers[1], target_span, begin=begin)}
    before = OffsetRange(plan.target_topic or "", plan.partition, position, min(begin, there.stable_end))
    return PositionDrill(
        topic=plan.topic,
        partition=plan.partition,
        source_position=plan.source.offset,
        target_position=position,
        compared=len(expected),
        skipped=sum(not _is_same(record, seen.get(record.offset)) for record in expected),
        read_again=await _count(readers[1], before),
        waiting=max(here.stable_end - max(there.stable_end, begin), 0),
    )


async def _compare_mapped(
    link: Link,
    readers: tuple[LogReader, LogReader],
    plan: PositionPlan,
    position: int,
    logs: tuple[LogRange, LogRange],
    lane: LaneMap,
    records: int,
    *,
    is_changed: bool,
) -> PositionDrill:
    """Compare a mapped partition: the map shows which record is which, and which would be read once more. If records
    are changed on their way it also shows which were left out, and contents are not compared.
    """
    here, there = logs
    seen_end = lane.seen_by_source(there).end
    begin = max(plan.source.offset, here.start)
    if lane.cursor.continues_another:
        # Where another program copied the earlier records is unknown.
        begin = max(begin, lane.begin)
    if link.distributor is not None:
        # Earlier records went to another leaf.
        begins = link.distributor.begins
        begin = max(begin, begin_of(begins, plan.topic, NO_TOPIC_ID, plan.partition))
    end = min(here.stable_end, seen_end, begin + records)
    expected = await _read(readers[0], OffsetRange(plan.topic, plan.partition, begin, end), role=link.distributor)
    expected = [record for record in expected if record.timestamp >= _read_elsewhere_ms(link, plan)]
    ranges = lane.offsets.within(begin, end)
    whole = OffsetRange(plan.target_topic or "", plan.partition, 0, 0)
    seen: dict[int, Record] = {}
    for span in spans_of(whole, ranges):
        from_position = span._replace(offset_begin=max(span.offset_begin, position))
        seen |= {record.offset: record for record in await _read(readers[1], from_position)}
    where = {one.source_begin + n: one.target_begin + n for one in ranges for n in range(one.length)}
    if is_changed:
        expected = [record for record in expected if record.offset in where]
    known = lane.offsets.within(0, plan.source.offset)
    return PositionDrill(
        topic=plan.topic,
        partition=plan.partition,
        source_position=plan.source.offset,
        target_position=position,
        compared=len(expected),
        skipped=sum(
            not (found := seen.get(where.get(record.offset, -1))) or not (is_changed or _is_same(record, found))
            for record in expected
        ),
        read_again=sum(
            max(min(one.target_end, there.stable_end) - max(one.target_begin, position), 0) for one in known
        ),
        waiting=max(here.stable_end - max(seen_end, begin), 0),
    )


def _read_elsewhere_ms(link: Link, plan: PositionPlan) -> int:
    """Return up to which time the group has read on another cluster of a tree, if its position came from there: older
    records are behind the position here only because their order differs. 0 where consumers committed it here.
    """
    sent = plan.sent
    if sent is None or (sent.distributor == link.name and sent.flags == bit(link.level)):
        return 0
    return sent.timestamp_ms


def _is_same(record: Record, other: Record | None) -> bool:
    return other is not None and (record.timestamp, record.key, record.value) == (
        other.timestamp,
        other.key,
        other.value,
    )


async def _read(
    reader: LogReader, span: OffsetRange, *, begin: int = 0, role: DistributorRole | None = None
) -> list[Record]:
    """Read what a consumer would see in a range, from batches that end behind `begin`; with a `role` what it copies."""
    found: list[Record] = []
    if span.is_empty:
        return found
    async for batches in reader.read(span):
        for item in batches:
            if not item.batch.is_control and not item.is_aborted and item.batch.offset_end > begin:
                found += [
                    r for r in _records_to_copy(item.batch, role) if span.offset_begin <= r.offset < span.offset_end
                ]
    return found


def _records_to_copy(batch: Batch, role: DistributorRole | None) -> list[Record]:
    """Return the records of a batch, without those that a distributor does not copy."""
    if role is not None and is_done_with(batch.producer_id, role.level):
        return []
    records, flags = records_of(batch), None if role is None else role.flags
    if role is None or flags is None:
        return records
    return [each for each in records if is_to_copy(flags.read(each.headers).flags, role.level)]


async def _count(reader: LogReader, span: OffsetRange) -> int:
    """Count the records a consumer would see in a range; batches wholly inside it are not decoded."""
    count = 0
    if span.is_empty:
        return count
    async for batches in reader.read(span):
        for item in batches:
            batch = item.batch
            if batch.is_control or item.is_aborted:
                continue
            if span.offset_begin <= batch.base_offset and batch.offset_end <= span.offset_end:
                count += batch.record_count
            else:
                count += sum(span.offset_begin <= r.offset < span.offset_end for r in records_of(batch))
    return count
