"""Take a link over from MirrorMaker 2: look at it, compare both sides, and write the ledger."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from isthmus.engine.mapped.transit import SEGMENT_RANGES
from isthmus.errors import PlanRefused
from isthmus.kafka.client import Client
from isthmus.kafka.metadata import NO_TOPIC_ID
from isthmus.kafka.transactions.producers import producers_of
from isthmus.ledger.documents.kinds import (
    Document,
    GapDocument,
    LeaseDocument,
    MapDocument,
    PauseDocument,
    TopicDocument,
)
from isthmus.ledger.fencing import FencedWriter
from isthmus.ledger.maps import map_segments
from isthmus.ledger.records import LedgerChange, in_batches
from isthmus.ledger.topic import on_topic
from isthmus.local.operator import operator
from isthmus.memory.filtering import apply_overrides
from isthmus.memory.hearing import is_run
from isthmus.memory.identity import cluster_ids
from isthmus.memory.links import LinkMemory, now_ms, recollect
from isthmus.memory.named import NamedLink
from isthmus.mirrormaker.predecessor import Predecessor
from isthmus.mirrormaker.takeover.examination import BothLogs, Examiner, contradiction
from isthmus.mirrormaker.takeover.plan import LinkTakeover, Outcome, PartitionTakeover, TopicTakeover
from isthmus.mirrormaker.takeover.positions import KeptPositions, PositionsTopic
from isthmus.mirrormaker.takeover.standstill import Standstill, ranges_of
from isthmus.mirrormaker.takeover.unread import Unread
from isthmus.model.configuration import LedgerSettings
from isthmus.model.kafka.log import LogRange
from isthmus.model.kafka.topic import TopicIds
from isthmus.model.lane import LaneKey
from isthmus.model.link import Link
from isthmus.model.naming import SourceTopic, SourceTopicPartition, TargetTopic, TargetTopicPartition
from isthmus.model.offsets import EARLIEST, Cursor
from isthmus.model.problem import Problem
from isthmus.topics.observation import observe
from isthmus.topics.preflight import TopicPair, is_compacted, stamps_append_time
from isthmus.topics.recording import build_document

SEGMENT: Final = "taken-over"
_AT_ONCE: Final = 4
_BEGUN: Final = Problem(
    "the link has begun this topic already, without what MirrorMaker 2 knew",
    "It goes on as it is. To have all of it copied again, delete the target topic while no controller runs.",
)
_REMEMBERED: Final = Problem(
    "the link has written this topic in an earlier life, and the target's brokers still know it as a producer",
    "Give the link another name in the configuration, and call this again.",
)
OnProgress = Callable[[str, int], None]
SourceLogs = Mapping[SourceTopicPartition, LogRange]
TargetLogs = Mapping[TargetTopicPartition, LogRange]


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeoverSettings:
    """The settings of a take-over. Nothing may have moved for `quiet_s`; remaining workers and transactions are waited
    for up to `patience_s`. With `is_whole` the whole target is compared.
    """

    quiet_s: float = 10.0
    patience_s: float = 90.0
    is_whole: bool = False
    allows_foreign: bool = False
    is_dry_run: bool = False


async def take_over(
    one: NamedLink, predecessor: Predecessor, settings: TakeoverSettings, on_progress: OnProgress
) -> LinkTakeover:
    """Have a link go on where a flow of MirrorMaker 2 stopped. `on_progress` gets the current step, and how many
    records of the target were compared.

    A repeated call resumes: topics that were taken over stay as they are.

    :raises ConfigError: There is no such link.
    :raises GateNotMet: MirrorMaker 2 has not stopped.
    :raises PlanRefused: A controller runs the link or came meanwhile, or MirrorMaker 2 keeps no positions there.
    :raises ClusterError: A cluster or a log cannot be read, or the ledger cannot be written.
    """
    link, ledger = one.link, one.configuration.ledger
    source, target = one.session.client(link.source), one.target
    return await _Takeover(link, predecessor, settings, ledger, source, target, on_progress).run()


class _Takeover:
    def __init__(
        self,
        link: Link,
        predecessor: Predecessor,
        settings: TakeoverSettings,
        ledger: LedgerSettings,
        source: Client,
        target: Client,
        on_progress: OnProgress,
    ) -> None:
        self._link, self._predecessor, self._settings, self._ledger = link, predecessor, settings, ledger
        self._source, self._target = source, target
        self._on_progress = on_progress
        self._compared = 0

    async def run(self) -> LinkTakeover:
        await cluster_ids(self._link, self._source, self._target)
        known = await recollect(self._link.name, self._target)
        if await is_run(self._link.name, self._target):
            raise PlanRefused(f"a controller runs link {self._link.name}", hint="End that isthmus run first.")
        self._link = apply_overrides(self._link, known.documents)
        observed = await observe(self._link, self._source, self._target)
        pairs = dict(observed.pairs)
        positions = PositionsTopic(self._target, self._predecessor)
        standstill = Standstill(
            partitions=[*await positions.partitions(), *_list_partitions(pairs)],
            positions=positions,
            worker_group=self._predecessor.worker_group,
            quiet_s=self._settings.quiet_s,
            patience_s=self._settings.patience_s,
        )
        at_target = await standstill.wait_for_logs(self._target, lambda what: self._on_progress(what, self._compared))
        self._on_progress(f"reading {positions.name}", self._compared)
        left = await positions.read(at_target)
        unread = await Unread.look(observed, self._link, left.committed, self._source, self._target)
        at_source = await ranges_of(self._source, _list_source_partitions(pairs))
        topics = (
            *await self._examine_topics(pairs, left, at_source, at_target, known),
            *(
                _build_unread(name, source, problem, known)
                for name, (source, problem) in sorted(unread.problems.items())
            ),
        )
        if any(log.start < log.end for log in at_source.values()):
            self._require_something(topics, left)
        await standstill.require_unmoved(self._target, at_target)
        selected = {*observed.names.sources.values(), *(source for source, _ in unread.problems.values())}
        found = LinkTakeover(
            link=self._link.name,
            offsets_topic=self._predecessor.offsets_topic,
            topics=topics,
            unselected=tuple(sorted({topic for topic, _ in left.committed} - selected - unread.gone)),
            gone=tuple(sorted(unread.gone)),
            is_written=not self._settings.is_dry_run,
        )
        if not self._settings.is_dry_run:
            await self._write(found, known)
        return found

    def _require_something(self, topics: tuple[TopicTakeover, ...], left: KeptPositions) -> None:
        """Require a trace of the flow: without one the positions may have been looked for in the wrong place.

        :raises PlanRefused: There are no positions, and no copies.
        """
        if left.committed or any(topic.outcome is not Outcome.NEW for topic in topics):
            return
        alias = self._predecessor.source_alias
        others = f", only of {', '.join(sorted(left.others))}" if left.others else ""
        raise PlanRefused(
            f"{self._predecessor.offsets_topic} has no position of a source that is called {alias}{others}, and no "
            f"topic that link {self._link.name} writes to holds a record: there is nothing to take over",
            hint=(
                "Compare the alias, the topic of positions (--offsets-topic) and topics.naming with those of "
                "MirrorMaker 2. If it has copied nothing yet, isthmus run begins without --take-over."
            ),
        )

    # What is there

    async def _examine_topics(
        self,
        pairs: Mapping[TargetTopic, TopicPair],
        left: KeptPositions,
        at_source: SourceLogs,
        at_target: TargetLogs,
        known: LinkMemory,
    ) -> tuple[TopicTakeover, ...]:
        committed = left.committed
        begun_before = map_segments(self._link.name, known.documents)
        remembered = await self._find_remembered(pairs, known)
        examiner = Examiner(
            self._source,
            self._target,
            is_whole=self._settings.is_whole,
            allows_foreign=self._settings.allows_foreign,
            begins_late=self._link.topics.start != EARLIEST,
            on_read=self._count,
        )
        room = asyncio.Semaphore(_AT_ONCE)

        async def examine(pair: BothLogs) -> PartitionTakeover:
            async with room:
                self._on_progress(f"comparing {pair.target_topic}-{pair.partition}", self._compared)
                return await examiner.examine(pair)

        topics = []
        for name, pair in sorted(pairs.items()):
            topic = _build_unexamined(name, pair)
            before = _find_earlier_outcome(topic, known, begun_before)
            ahead = _ahead(topic, left.furthest, begun_before) if before is Outcome.DONE_BEFORE else None
            if ahead is not None:
                topics.append(replace(topic, problem=ahead))
            elif before is not None:
                topics.append(replace(topic, before=before, problem=_BEGUN if before is Outcome.BEGUN else None))
            elif name in remembered:
                topics.append(replace(topic, problem=_REMEMBERED))
            elif pair.target is None:
                topics.append(_check_absent(topic, committed))
            else:
                parts = _pair_logs(name, pair, committed, at_source, at_target)
                topics.append(replace(topic, partitions=tuple(await asyncio.gather(*map(examine, parts)))))
        return tuple(topics)

    def _count(self, records: int) -> None:
        self._compared += records
        self._on_progress("comparing", self._compared)

    async def _find_remembered(
        self, pairs: Mapping[TargetTopic, TopicPair], known: LinkMemory
    ) -> frozenset[TargetTopic]:
        """Find the topics that an earlier link of this name wrote, if brokers know: its sequences would go on."""
        document = known.identity
        if document is None:
            return frozenset()
        keys = _list_partitions(pairs)
        producers = await producers_of(self._target, keys)
        return frozenset(
            topic
            for (topic, _), found in producers.values.items()
            if any(each.producer_id == document.producer_id for each in found)
        )

    # What is written

    async def _write(self, found: LinkTakeover, known: LinkMemory) -> None:
        changes = [list(self._build_changes(topic, known)) for topic in found.topics]
        if not any(changes):
            return
        writer = FencedWriter(self._target, self._link.name)
        try:
            # First without a fence, so that a run that came meanwhile goes on; then again once others are fenced.
            await self._require_nobody_came(known)
            await writer.take_over()
            async with writer.looking(replication_factor=self._ledger.replication_factor):
                await self._require_nobody_came(known)
            for topic in changes:
                # The document that a topic was begun comes last.
                for batch in in_batches(topic):
                    append = partial(writer.append, batch)
                    await on_topic(self._target, append, replication_factor=self._ledger.replication_factor)
        finally:
            writer.close()

    async def _require_nobody_came(self, known: LinkMemory) -> None:
        """Require that no controller came during the comparison: its tasks may write for seconds after they were
        fenced, so that their topics are no longer at the compared positions.

        :raises PlanRefused: A controller has come since the ledger was read first, or has begun topics.
        """
        now = await recollect(self._link.name, self._target)
        is_run = now.controller not in (None, known.controller)
        if is_run or _find_begun(now).items() - _find_begun(known).items():
            raise PlanRefused(
                f"a controller began to run link {self._link.name} meanwhile: nothing was written",
                hint="End that isthmus run and run this command again: it names the topics that the run has begun.",
            )

    def _build_changes(self, topic: TopicTakeover, known: LinkMemory) -> Iterator[LedgerChange]:
        if topic.outcome is Outcome.REFUSED:
            yield PauseDocument(link=self._link.name, topic=topic.topic, since_ms=now_ms(), by=operator())
        if topic.outcome is Outcome.DONE_BEFORE:
            # An earlier call may have been cut off before it committed: write its documents again, in a transaction.
            yield from _repeat_changes(topic.topic, known)
        if topic.outcome is not Outcome.TAKEN_OVER:
            return
        for each in topic.partitions:
            if each.outcome is Outcome.TAKEN_OVER:
                yield from _build_segments(self._link.name, topic, each)
            if each.gap is not None:
                yield GapDocument(
                    link=self._link.name,
                    topic=topic.topic,
                    partition=each.partition,
                    offset_begin=each.gap.offset_begin,
                    offset_end=each.gap.offset_end,
                )
        yield build_document(self._link.name, topic.topic, topic.ids)


def _find_begun(known: LinkMemory) -> dict[str, Document]:
    """Find the documents that a controller writes before its tasks write anything."""
    return {key: each for key, each in known.documents.items() if isinstance(each, LeaseDocument | TopicDocument)}


def _build_segments(link: str, topic: TopicTakeover, each: PartitionTakeover) -> Iterator[MapDocument]:
    """Build the map of a lane up to the offset where it begins."""
    ranges = () if each.found is None else each.found.ranges
    cursor = Cursor(each.begin, 0, each.target_end, continues_another=True)
    for number, begin in enumerate(range(0, max(len(ranges), 1), SEGMENT_RANGES // 2)):
        yield MapDocument(
            link=link,
            topic=topic.topic,
            partition=each.partition,
            segment=f"{SEGMENT}.{number}",
            ordinal_begin=0,
            ranges=ranges[begin : begin + SEGMENT_RANGES // 2],
            cursor=cursor,
            begin=ranges[0].source_begin if ranges else each.begin,
            source_topic_id=topic.ids.source,
            target_topic_id=topic.ids.target,
        )


def _build_unexamined(name: TargetTopic, pair: TopicPair) -> TopicTakeover:
    target = pair.target
    target_id = NO_TOPIC_ID if target is None else target.topic_id
    # Partitions that MirrorMaker 2 has not created came later: they are copied from the start despite `topics.start`.
    first = pair.source.partition_count if target is None else min(pair.source.partition_count, target.partition_count)
    ids = TopicIds(
        source_topic=pair.source_name,
        source=pair.source.topic_id,
        target=target_id,
        is_mapped=True,
        first_partitions=first,
    )
    return TopicTakeover(topic=name, source_topic=pair.source_name, ids=ids)


def _check_absent(topic: TopicTakeover, committed: Mapping[SourceTopicPartition, int]) -> TopicTakeover:
    """Check a topic that the target does not have: a contradiction if MirrorMaker 2 has a position of it."""
    offsets = [offset for (name, _), offset in committed.items() if name == topic.source_topic]
    if not offsets:
        return topic
    return replace(topic, problem=contradiction(f"the target has no topic {topic.topic}", max(offsets)))


def _find_earlier_outcome(
    topic: TopicTakeover, known: LinkMemory, segments: Mapping[LaneKey, list[MapDocument]]
) -> Outcome | None:
    """Return the outcome of a topic in an earlier call or run; `None` if there was none."""
    document = known.topics.get(topic.topic)
    if document is None or document.target_topic_id != topic.ids.target:
        return None
    return _begun_as(topic.topic, segments)


def _ahead(
    topic: TopicTakeover, committed: Mapping[SourceTopicPartition, int], segments: Mapping[LaneKey, list[MapDocument]]
) -> Problem | None:
    """Find out whether MirrorMaker 2 went on after the take-over of a topic: its records would be copied again."""
    for (name, number), offset in sorted(committed.items()):
        if name != topic.source_topic:
            continue
        # A partition without a map held nothing yet, and had no position, when the topic was taken over.
        own = segments.get(LaneKey(topic.topic, number), ())
        copied_end = max((each.cursor.source_offset for each in own), default=0)
        if copied_end < offset:
            return Problem(
                f"MirrorMaker 2 has gone on since it was taken over: its position in partition {number} is {offset}, "
                f"and the link has copied up to source offset {copied_end}",
                "Give the link another name in the configuration, and call this again: then all that is at the target "
                "is looked at again.",
            )
    return None


def _begun_as(name: TargetTopic, segments: Mapping[LaneKey, list[MapDocument]]) -> Outcome:
    own = [segment for key, found in segments.items() if key.topic == name for segment in found]
    return Outcome.DONE_BEFORE if any(segment.cursor.continues_another for segment in own) else Outcome.BEGUN


def _build_unread(name: TargetTopic, source: SourceTopic, problem: Problem, known: LinkMemory) -> TopicTakeover:
    """Build the result of a topic that could not be looked at. A topic that was begun before is not paused for that."""
    is_begun = name in known.topics
    return TopicTakeover(
        topic=name,
        source_topic=source,
        ids=TopicIds(source_topic=source, source=NO_TOPIC_ID, target=NO_TOPIC_ID, is_mapped=True),
        before=_begun_as(name, map_segments(known.link, known.documents)) if is_begun else None,
        problem=problem,
    )


def _repeat_changes(name: TargetTopic, known: LinkMemory) -> Iterator[LedgerChange]:
    """Yield the documents that an earlier call has written for a topic, in the same order."""
    own = [each for each in known.documents.values() if isinstance(each, MapDocument | GapDocument)]
    yield from (each for each in own if each.topic == name and (isinstance(each, GapDocument) or _is_ours(each)))
    yield known.topics[name]


def _is_ours(segment: MapDocument) -> bool:
    """Whether a segment was written by a take-over, and not by a lease."""
    return segment.segment.startswith(f"{SEGMENT}.")


def _pair_logs(
    name: TargetTopic,
    pair: TopicPair,
    committed: Mapping[SourceTopicPartition, int],
    at_source: SourceLogs,
    at_target: TargetLogs,
) -> list[BothLogs]:
    """Pair the partitions of a topic that both sides have; MirrorMaker 2 creates as many as the source has."""
    target = pair.target
    if target is None:
        return []
    compacted = is_compacted(pair.source), is_compacted(target)
    return [
        BothLogs(
            source_topic=pair.source_name,
            target_topic=name,
            partition=number,
            source=at_source[pair.source_name, number],
            target=at_target[name, number],
            committed=committed.get((pair.source_name, number), -1),
            is_source_compacted=compacted[0],
            is_target_compacted=compacted[1],
            has_other_times=stamps_append_time(target),
        )
        for number in range(min(pair.source.partition_count, target.partition_count))
    ]


def _list_partitions(pairs: Mapping[TargetTopic, TopicPair]) -> list[TargetTopicPartition]:
    return [(name, n) for name, pair in pairs.items() if pair.target for n in range(pair.target.partition_count)]


def _list_source_partitions(pairs: Mapping[TargetTopic, TopicPair]) -> list[SourceTopicPartition]:
    return [(pair.source_name, n) for pair in pairs.values() for n in range(pair.source.partition_count)]
