"""What a link leaves behind: how far each partition was copied, whether a task still writes, and the provenance."""

from __future__ import annotations

import asyncio
import contextlib
import math
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final, NamedTuple

from isthmus.engine.same.judgement import is_copy
from isthmus.errors import ClusterError, ConfigError
from isthmus.kafka import codes
from isthmus.kafka.admin.topics import known_absent, selected_topics
from isthmus.kafka.batches.batch import SEQUENCE_MASK, Batch
from isthmus.kafka.client import Client
from isthmus.kafka.log.offsets import log_ranges
from isthmus.kafka.log.tail import batches_before, last_batches
from isthmus.kafka.metadata import NO_TOPIC_ID, Metadata
from isthmus.kafka.transactions.open import transactional_ids
from isthmus.ledger.documents.declared import declaration_of
from isthmus.ledger.documents.kinds import (
    BeginningDocument,
    Document,
    LeaseDocument,
    ProvenanceDocument,
    TopicDocument,
)
from isthmus.ledger.documents.lastknown import KnownNamesDocument
from isthmus.ledger.documents.provenance import beginning_of
from isthmus.ledger.handover import has_ended, was_clean
from isthmus.ledger.log import LedgerWriter
from isthmus.ledger.maps import lane_maps
from isthmus.ledger.records import LedgerChange, in_batches
from isthmus.local.operator import operator
from isthmus.memory.links import (
    LinkMemory,
    age_most_s,
    names_of_transactions,
    now_ms,
    recollect,
)
from isthmus.model.kafka.log import LogRange
from isthmus.model.kafka.topic import LeftInTier
from isthmus.model.kafka.transactions import OpenTransaction, TransactionState, is_lone, source_producer_id
from isthmus.model.lane import LaneKey, LaneReport, LaneState
from isthmus.model.link import Link
from isthmus.model.links.lastknown import KnownNames
from isthmus.model.links.promotion import LeftPartition, Promotion, TornTransaction
from isthmus.model.namespace import NamespaceMap
from isthmus.model.naming import SourceTopic, SourceTopicPartition, TargetTopic, TargetTopicPartition
from isthmus.model.text.wording import first_few

_SOURCE_S: Final = 4.0
"""The longest wait for a source that may be lost."""
_NO_COPIES: Final = frozenset({LaneState.DIVERGED, LaneState.TOPIC_RECREATED})
"""States in which an offset is not that of the same record on both sides: the lane's position means nothing."""


async def source_logs(
    link: Link, source: Client, followed: Collection[SourceTopic]
) -> dict[SourceTopicPartition, LogRange]:
    """Read the logs of all partitions at the source that the link selects and has a name for. Those of the `followed`
    topics that no longer exist are left out.

    :raises ClusterError: A log cannot be read, or a followed topic is not shown, and is not known to be gone.
    """
    metadata = await selected_topics(source, link.topics)
    keys = _selected_partitions(link, metadata)
    if unseen := await _find_unseen(source, keys, followed):
        alias = source.cluster.alias
        raise ClusterError(
            f"{alias} does not show {first_few(sorted(unseen))}, and not all of its brokers report that it is gone",
            cluster=alias,
            hint=f"Grant DESCRIBE on it to the principal of {alias}, or see that all its brokers are up; then give the "
            "command again.",
        )
    found = await log_ranges(source, keys)
    for error in found.errors.values():
        raise error
    return dict(found.values)


def followed_topics(link: Link, known: LinkMemory) -> frozenset[SourceTopic]:
    """Return the source topics that the link was seen to copy, and still selects."""
    return frozenset(
        each.source_topic
        for topic, each in known.topics.items()
        if link.topics.target_of(each.source_topic) == topic
        and not each.is_wanted
        and each.state != LaneState.SOURCE_DELETED
    )


async def _find_unseen(
    source: Client, keys: Collection[SourceTopicPartition], followed: Collection[SourceTopic]
) -> frozenset[SourceTopic]:
    """Return the followed topics that the source does not show although it may have them: a topic missing in an answer
    may be hidden, or unknown to a broker that has just started.
    """
    missing = frozenset(followed) - {topic for topic, _ in keys}
    gone = await known_absent(source, missing)
    return frozenset(each for each in missing if each not in gone)


def _selected_partitions(link: Link, metadata: Metadata) -> list[SourceTopicPartition]:
    return [
        (name, each.partition)
        for name in sorted(link.topics.name_topics(metadata.topics).sources.values())
        for each in metadata.topics[name].partitions
    ]


class SeenLogs(NamedTuple):
    """The source's logs as far as it answers, `None` where it does not; whether all of its topics are among them, and
    whether the log of each partition is. `ids` are those of the topics that it shows.
    """

    logs: Mapping[SourceTopicPartition, LogRange] | None = None
    has_topics: bool = False
    is_whole: bool = False
    ids: Mapping[str, uuid.UUID] = MappingProxyType({})


NOTHING_SEEN: Final = SeenLogs()


async def seen_logs(link: Link, source: Client, followed: Collection[SourceTopic]) -> SeenLogs:
    """Read the source's logs as far as it answers within a few seconds. Nothing is raised: it may be lost. An answer
    without any topic, or without all that were `followed`, does not count as complete.
    """
    with contextlib.suppress(ClusterError, TimeoutError):
        async with asyncio.timeout(_SOURCE_S):
            metadata = await selected_topics(source, link.topics)
            keys = _selected_partitions(link, metadata)
            found = await log_ranges(source, keys, timeout_s=_SOURCE_S / 2)
            has_topics = bool(keys or followed) and not await _find_unseen(source, keys, followed)
            is_whole = has_topics and len(found.values) == len(keys)
            ids = {name: each.topic_id for name, each in metadata.topics.items() if each.error_code == codes.NONE}
            return SeenLogs(dict(found.values), has_topics, is_whole, ids)
    return NOTHING_SEEN


async def with_transactional_ids(
    source: Client, known: LinkMemory, left: tuple[LeftPartition, ...], *, asks: bool
) -> tuple[LeftPartition, ...]:
    """Add the transactional ids of the transactions that partitions end within, as the link's controller noted them,
    and, with `asks`, as the source reports them within seconds.
    """
    names = dict(names_of_transactions(known.link, known.documents))
    producers = {one.producer_id for each in left for one in each.ends_within or ()} - names.keys()
    if producers and asks:
        with contextlib.suppress(ClusterError, TimeoutError):
            async with asyncio.timeout(_SOURCE_S):
                names |= await transactional_ids(source, producers)

    def with_id(one: TornTransaction) -> TornTransaction:
        return one._replace(transactional_id=names.get(one.producer_id, ""))

    return tuple(
        replace(each, ends_within=tuple(map(with_id, each.ends_within))) if each.ends_within else each for each in left
    )


def add_transactional_ids(found: Iterable[OpenTransaction], known: LinkMemory) -> tuple[OpenTransaction, ...]:
    """Add, to transactions that a link has open at its target, the transactional ids that they have at the source, as
    far as its controller noted them.
    """
    names = dict(names_of_transactions(known.link, known.documents))
    return tuple(
        each._replace(transactional_id=names.get(source_producer_id(each.producer_id)))
        if each.state is TransactionState.MIRRORED
        else each
        for each in found
    )


def without_open(left: tuple[LeftPartition, ...], found: Collection[OpenTransaction]) -> tuple[LeftPartition, ...]:
    """Remove the transactions that are open at the target from those that partitions end within: a consumer of
    committed records sees none of their records.
    """
    hidden = {
        (each.topic, each.partition, source_producer_id(each.producer_id))
        for each in found
        if each.state is TransactionState.MIRRORED
    }
    return tuple(
        replace(
            each,
            ends_within=tuple(
                one for one in each.ends_within if (each.topic, each.partition, one.producer_id) not in hidden
            ),
        )
        if each.ends_within
        else each
        for each in left
    )


async def left_partitions(
    link: Link,
    target: Client,
    here: Mapping[SourceTopicPartition, LogRange] | None,
    seen: SeenLogs = NOTHING_SEEN,
    *,
    source: Client | None = None,
) -> tuple[LeftPartition, ...]:
    """Describe all partitions at the target as they are now, beside the source's logs, or beside the last known ones
    and those `seen` now; then those of followed topics that the target does not have. Partitions that no lane has
    reported are compared with the `source`.

    :raises ClusterError: The target does not answer, or the source where it is asked.
    """
    known = await recollect(link.name, target)
    topics = (await target.metadata(None)).topics
    named = [name for name in map(TargetTopic, topics) if link.topics.source_of(name) is not None]
    keys = [(name, each.partition) for name in named for each in topics[name].partitions]
    ranges = (await log_ranges(target, keys)).values
    tails = await _find_doubtful_tails(known, target, ranges)
    ours = _ours(known, tails)
    if source is not None and here is not None:
        ours |= await _find_copied_tails(
            link, known, source, {key: tail for key, tail in tails.items() if key not in ours}
        )
    return left_of(link, known, {key: ranges.get(key) for key in keys}, here, now_ms(), seen.logs, ours, seen.ids)


async def _find_doubtful_tails(
    known: LinkMemory, target: Client, there: Mapping[TargetTopicPartition, LogRange]
) -> Mapping[TargetTopicPartition, Batch]:
    """Read the last batch of those logs whose last lane report says too little or cannot be true any more; where others
    have written, the last batch before the reported position.
    """
    doubted: dict[TargetTopicPartition, int] = {}
    ended = ended_lanes(known)
    for (name, partition), log in there.items():
        key = LaneKey(name, partition)
        document, report = known.topics.get(key.topic), known.last_known.get(key)
        if document is not None and document.is_mapped:
            continue
        position = -1 if report is None else report.position
        whole = None if document is None else document.state
        if LaneState.FOREIGN_WRITE in (ended.get(key), whole):
            doubted[name, partition] = min(position, log.end)
        elif position != log.end:
            doubted[name, partition] = log.end
    return await last_batches(target, doubted)


def _ours(known: LinkMemory, tails: Mapping[TargetTopicPartition, Batch]) -> dict[TargetTopicPartition, int]:
    """Return where those of these last batches end that the link itself wrote, at the offset they were written for."""
    own = None if known.identity is None else known.identity.producer_id
    return {
        key: batch.offset_end
        for key, batch in tails.items()
        if is_lone(batch.producer_id)
        or (batch.producer_id == own and batch.base_sequence == batch.base_offset & SEQUENCE_MASK)
    }


async def _find_copied_tails(
    link: Link, known: LinkMemory, source: Client, tails: Mapping[TargetTopicPartition, Batch]
) -> dict[TargetTopicPartition, int]:
    """Return where those of these last batches end that equal the source's there, for lanes that never reported.

    :raises ClusterError: The source does not answer.
    """
    lanes: dict[TargetTopicPartition, SourceTopicPartition] = {}
    for name, partition in tails:
        source_topic = link.topics.source_of(name)
        if source_topic is not None and LaneKey(name, partition) not in known.last_known:
            lanes[name, partition] = (source_topic, partition)
    found = await batches_before(source, {at: tails[key].offset_end for key, at in lanes.items()})
    copies: dict[TargetTopicPartition, int] = {}
    for key, at in lanes.items():
        end, here = tails[key].offset_end, found.get(at)
        # A batch that cannot be decoded proves nothing.
        with contextlib.suppress(ValueError):
            if isinstance(here, Batch) and is_copy(tails[key], here, end - 1, is_compacted=False):
                copies[key] = end
    return copies


def left_of(
    link: Link,
    known: LinkMemory,
    there: Mapping[TargetTopicPartition, LogRange | None],
    here: Mapping[SourceTopicPartition, LogRange] | None,
    at_ms: int,
    seen: Mapping[SourceTopicPartition, LogRange] | None = None,
    ours: Mapping[TargetTopicPartition, int] = MappingProxyType({}),
    ids: Mapping[str, uuid.UUID] = NOTHING_SEEN.ids,
) -> tuple[LeftPartition, ...]:
    """Describe what is left of the partitions that are `there`, at the target, and of those the source is known to
    have. A followed topic of which neither is known appears as partition -1: all of it may be missing. `seen` is what
    the source answers now where that may be incomplete, and `ids` are those of its topics: a topic that was created
    again has nothing that was copied. Records before the offsets that are `ours` came from the source, as the batches
    there show.
    """
    sight = _Sight(
        known=known,
        topics=known.topics,
        ended=ended_lanes(known),
        here=here,
        noted={} if here is not None else _last_seen_logs(link, known, at_ms, seen or {}),
        at_ms=at_ms,
        ours=ours,
        ids=ids,
        left_mapped=frozenset(
            LaneKey(one.topic, one.partition)
            for one in ProvenanceDocument.find_all(known.documents.values())
            if one.is_mapped
        ),
    )
    lanes: dict[LaneKey, SourceTopic] = {}
    for topic, partition in there:
        source_topic = link.topics.source_of(topic)
        if source_topic is not None and topic in sight.topics:
            lanes[LaneKey(topic, partition)] = source_topic
    for source_name, partition in sight.noted if here is None else here:
        topic_there = link.topics.target_of(source_name)
        if topic_there is not None:
            lanes.setdefault(LaneKey(topic_there, partition), source_name)
    if here is None:
        heard = {key.topic for key in lanes}
        for topic, document in sight.topics.items():
            if topic not in heard and link.topics.source_of(topic) is not None:
                lanes[LaneKey(topic, -1)] = document.source_topic
    return tuple(_left_partition(sight, key, lanes[key], there.get(key)) for key in sorted(lanes))


def names_age_s(known: LinkMemory, at_ms: int) -> float | None:
    """Return how long ago (s) the list of the source's topics was seen, `None` where it was never written down,
    infinite where the clocks disagree.
    """
    return min((age_most_s(each.seen_ms, at_ms) for each in known_names(known)), default=None)


def ended_lanes(known: LinkMemory) -> dict[LaneKey, LaneState]:
    """Return the lanes that wait for an operator, as `isthmus status` reports them."""
    found = {key: report.state for key, report in known.reports.items() if report.state.is_terminal}
    for topic, document in known.topics.items():
        found |= {LaneKey(topic, each.partition): LaneState(each.state) for each in document.ended}
    return found


class _SeenLog(NamedTuple):
    """A source's log as seen so long ago, infinite if the clocks disagree; -1 for what its leader did not report."""

    start: int
    end: int
    age_s: float


def _last_seen_logs(
    link: Link, known: LinkMemory, at_ms: int, seen: Mapping[SourceTopicPartition, LogRange]
) -> dict[SourceTopicPartition, _SeenLog]:
    """Return the logs of the source's partitions as they are seen now, or as the link's controller wrote them down
    last, each minute.
    """
    found: dict[SourceTopicPartition, _SeenLog] = {}
    for names in known_names(known):
        age_s = age_most_s(names.seen_ms, at_ms)
        for topic in names.topics:
            name = SourceTopic(topic.name)
            if link.topics.matches(name):
                for each in topic.logs:
                    found[name, each.partition] = _SeenLog(each.start, each.end, age_s)
    return found | {key: _SeenLog(log.start, log.end, 0.0) for key, log in seen.items()}


def known_names(known: LinkMemory) -> list[KnownNames]:
    """Return what the link's controller wrote down of its source."""
    source = None if known.identity is None else known.identity.source_cluster_id
    names = (each.names for each in KnownNamesDocument.find_all(known.documents.values()))
    return [each for each in names if each.cluster_id == source]


class _Sight(NamedTuple):
    """What is known of a link and of its source's logs, which are either `here` or were `noted` by its controller."""

    known: LinkMemory
    topics: Mapping[TargetTopic, TopicDocument]
    ended: Mapping[LaneKey, LaneState]
    here: Mapping[SourceTopicPartition, LogRange] | None
    noted: Mapping[SourceTopicPartition, _SeenLog]
    at_ms: int
    ours: Mapping[TargetTopicPartition, int]
    ids: Mapping[str, uuid.UUID]
    left_mapped: frozenset[LaneKey]

    def is_mapped(self, key: LaneKey) -> bool:
        """Whether offsets differ; once the link has let go of a topic, only its provenance says so."""
        document = self.topics.get(key.topic)
        return key in self.left_mapped if document is None else document.is_mapped

    def state(self, key: LaneKey) -> LaneState | None:
        """Return the state of a lane that waits for an operator, by itself or with its whole topic."""
        document = self.topics.get(key.topic)
        whole = None if document is None else LaneState(document.state)
        ids = () if document is None else (document.source_topic_id, self.ids.get(document.source_topic, NO_TOPIC_ID))
        if len(set(ids) - {NO_TOPIC_ID}) > 1:
            return LaneState.TOPIC_RECREATED
        return self.ended.get(key) or (whole if whole is not None and whole.is_terminal else None)


def _left_partition(sight: _Sight, key: LaneKey, source_topic: SourceTopic, there: LogRange | None) -> LeftPartition:
    report, is_mapped = sight.known.last_known.get(key), sight.is_mapped(key)
    log = None if sight.here is None else sight.here.get((source_topic, key.partition))
    heard = _last_heard_log(sight, key, source_topic, report) if log is None else _SeenLog(log.start, log.end, 0.0)
    # A partition that no longer exists at the source needs no proof.
    ended = sight.state(key)
    state = ended if log is not None or sight.here is None else None
    position = -1 if report is None else report.position
    if there is not None and not is_mapped:
        shown = sight.ours.get((key.topic, key.partition), -1)
        if ended is LaneState.FOREIGN_WRITE or position > there.end:
            # The target may have lost copied records, and others have written in their place.
            position = shown
        elif ended is None:
            # The lane wrote on after its last report, or no lane ever reported.
            position = max(position, shown)
    copied = _copied_before(state, there, position, is_mapped=is_mapped)
    missing = -1
    if heard is not None and heard.end >= 0 and copied is not None:
        missing = max(heard.end - max(_kept_end(copied, there, is_mapped=is_mapped), heard.start), 0)
    elif log is not None and log.start == log.end:
        # Where the source has no records none can be missing, whatever the target holds.
        missing = 0
    return LeftPartition(
        topic=key.topic,
        partition=key.partition,
        source_topic=source_topic,
        state=state,
        is_mapped=is_mapped,
        target_begin=-1 if there is None else there.start,
        target_end=-1 if there is None else there.end,
        copied_end=_copied_end(ended, there, position, is_mapped=is_mapped),
        source_end=-1 if heard is None else heard.end,
        source_age_s=None if heard is None or math.isinf(heard.age_s) else heard.age_s,
        missing_records=missing,
        ends_within=_ends_within(report, there, copied, log, is_mapped=is_mapped),
    )


def _ends_within(
    report: LaneReport | None, there: LogRange | None, copied: int | None, log: LogRange | None, *, is_mapped: bool
) -> tuple[TornTransaction, ...] | None:
    """Return the committed transactions that a partition ends within, `None` where that is unknown: its lane reported
    its position only, and later records may have ended one or begun another.
    """
    if there is None or (log is not None and copied is not None and copied >= log.end == log.stable_end):
        return ()
    if report is None or report.within is None or is_mapped or report.position != there.end:
        return None
    return tuple(map(TornTransaction, report.within))


def _last_heard_log(
    sight: _Sight, key: LaneKey, source_topic: SourceTopic, report: LaneReport | None
) -> _SeenLog | None:
    """Return the source's log as it was last heard, `None` for never. The end is the furthest that was seen, as logs
    only grow, and the age is that of the latest look.
    """
    found: list[_SeenLog] = []
    if report is not None and report.source_end >= 0:
        age_s = sight.known.source_age_s(key, sight.at_ms)
        if age_s is not None:
            found.append(_SeenLog(0, max(report.source_end, report.source_log_end), age_s))
    seen = sight.noted.get((source_topic, key.partition))
    if seen is not None:
        found.append(seen)
    if not found:
        return None
    known = [each for each in found if each.end >= 0]
    return _SeenLog(
        start=max(0, *(each.start for each in found)),
        end=max((each.end for each in known), default=-1),
        age_s=min(each.age_s for each in known or found),
    )


def _copied_before(state: LaneState | None, there: LogRange | None, position: int, *, is_mapped: bool) -> int | None:
    """Return the offset before which the target has all that the source has, -1 for nothing, `None` if unknown."""
    if there is None or (state is None and is_mapped):
        return position if is_mapped else -1
    if there.end == 0:
        return 0
    # Others may have written behind its position; where a diverged lane diverges only both logs show.
    if state in _NO_COPIES or position < 0:
        return None
    return position if is_mapped else min(position, there.end)


def _kept_end(copied: int, there: LogRange | None, *, is_mapped: bool) -> int:
    """Return the offset before which all that was `copied` stays when the link lets go: transactions still open then
    are aborted, and may be committed at the source.
    """
    return copied if there is None or is_mapped else min(copied, there.stable_end)


def _copied_end(ended: LaneState | None, there: LogRange | None, position: int, *, is_mapped: bool) -> int:
    """Return the target's offset before which its records came from the source; -1 if unknown. With mapped offsets no
    position shows it: then the log's end, including what others may have written between.
    """
    if there is None:
        return 0
    copied = there.end if is_mapped else _copied_before(ended, there, position, is_mapped=False)
    return -1 if copied is None else copied


def is_writing(known: LinkMemory, is_meant: Callable[[TargetTopic], bool]) -> bool:
    """Whether a task of the link may still write to one of these topics."""
    return bool(writing_lanes(known, is_meant))


def writing_lanes(known: LinkMemory, is_meant: Callable[[TargetTopic], bool]) -> frozenset[LaneKey]:
    """Return the lanes into these topics that a task of the link may still write, even one that has to stop."""
    return frozenset(
        key
        for lease in LeaseDocument.find_all(known.documents.values())
        if not has_ended(lease, known.documents)
        for key in (*(lane.key for lane in lease.lanes), *lease.parting)
        if is_meant(key.topic)
    )


def goes_without(known: LinkMemory, maps: Collection[NamespaceMap]) -> bool:
    """Whether the controller of a link has reported that it acts on the detachment of these namespaces, as the target's
    ledger has it: it has ended all its work for them, and begins none any more.
    """
    declaration = declaration_of(known.link, known.documents.values())
    is_detached = bool(maps) and set(maps) <= set(declaration.detached)
    return is_detached and known.controller is not None and known.controller.attached_said == declaration.attached_said


def left_nothing(known: LinkMemory) -> bool:
    """Whether all ended leases of a link left no requests in flight: a next owner would wait for those."""
    return all(was_clean(each, known.documents) for each in LeaseDocument.find_all(known.documents.values()))


def provenance(found: Promotion, known: LinkMemory) -> list[ProvenanceDocument]:
    """Return the provenance of all partitions."""
    source_cluster = "" if known.identity is None else known.identity.source_cluster_id
    return [_provenance(found, each, source_cluster, known) for each in found.partitions if each.partition >= 0]


async def write_down(found: Promotion, target: Client) -> None:
    """Write down the provenance of all partitions, and that the link has let go of them. What the same verb wrote
    before it was interrupted stays.

    :raises ClusterError: The target's ledger cannot be read or written.
    """
    known = await recollect(found.link, target)
    changes: list[LedgerChange] = [
        one
        for one in provenance(found, known)
        if not _is_written(one, known.documents)
        # Without its topic's document it is unknown how far an ended lane came.
        and not ((found.verb == "detach" or one.topic not in known.topics) and _is_let_go(one, known.documents))
    ]
    writer = LedgerWriter(target)
    try:
        for batch in in_batches([*changes, *endings(found, known)]):
            await writer.append(batch)
    finally:
        writer.close()


def _is_written(one: ProvenanceDocument, documents: Mapping[str, Document]) -> bool:
    """Whether this was written down before the verb was interrupted; a document of another verb is overwritten."""
    held = documents.get(one.key)
    return isinstance(held, ProvenanceDocument) and held.verb == one.verb


def _is_let_go(one: ProvenanceDocument, documents: Mapping[str, Document]) -> bool:
    """Whether the link let go of the topic before: later records are no copies, or those of another link."""
    beginning = BeginningDocument.find(documents, one.link, one.topic)
    return beginning is not None and beginning.is_over


def endings(found: Promotion, known: LinkMemory) -> list[BeginningDocument]:
    """Return documents that the link has let go of its topics: if they follow again, that begins at their ends then."""
    topics = {each.topic: known.topics.get(each.topic) for each in found.partitions if each.partition >= 0}
    return [
        BeginningDocument(
            link=found.link,
            topic=topic,
            topic_id=NO_TOPIC_ID if document is None else document.target_topic_id,
            is_over=True,
        )
        for topic, document in topics.items()
    ]


def begins_at(
    link: str, topic: TargetTopic, partition: int, topic_id: uuid.UUID, documents: Mapping[str, Document]
) -> int:
    """Return where a link began to write to a partition. An older release did not write down where it began: then
    behind what the link let go of before.
    """
    begin = beginning_of(link, topic, topic_id, documents).get(partition, -1)
    if begin >= 0:
        return begin
    return max(
        (
            max(each.offset_begin, each.offset_end)
            for each in ProvenanceDocument.find_all(documents.values(), link)
            if (each.topic, each.partition, each.topic_id) == (topic, partition, topic_id)
        ),
        default=0,
    )


def left_in_tier(topic: TopicDocument, documents: Mapping[str, Document]) -> tuple[LeftInTier, ...]:
    """Return the parts of a topic left in its source's remote tier; mapped partitions up to where their maps begin."""
    if not topic.is_mapped or not topic.left:
        return topic.left
    try:
        maps = lane_maps(topic.link, documents)
    except ConfigError:
        # `isthmus verify` reports that map as impossible.
        return ()
    begins = {key.partition: found.begin for key, found in maps.items() if key.topic == topic.target_topic}
    return tuple(each._replace(offset_end=begins.get(each.partition, -1)) for each in topic.left)


def _provenance(found: Promotion, each: LeftPartition, source_cluster: str, known: LinkMemory) -> ProvenanceDocument:
    document = known.topics.get(each.topic)
    stretches = () if document is None else left_in_tier(document, known.documents)
    left = [one for one in stretches if one.partition == each.partition]
    topic_id = NO_TOPIC_ID if document is None else document.target_topic_id
    # Records behind it came from elsewhere, and where the end is unknown, all of them may have.
    last = each.copied_end if each.copied_end >= 0 else max(each.target_end, 0)
    begin = begins_at(found.link, each.topic, each.partition, topic_id, known.documents)
    written = ProvenanceDocument(
        link=found.link,
        topic=each.topic,
        partition=each.partition,
        topic_id=topic_id,
        source_cluster=source_cluster,
        source_topic=each.source_topic,
        is_mapped=each.is_mapped,
        offset_begin=min(max(each.target_begin, begin), last),
        offset_end=each.copied_end,
        missing_records=each.missing_records,
        heard_s=-1.0 if each.source_age_s is None else each.source_age_s,
        ends_within=each.ends_within,
        left_begin=left[0].offset_begin if left else 0,
        left_end=left[0].offset_end if left else 0,
        verb=found.verb,
        by=operator(),
        at_ms=now_ms(),
    )
    before = known.documents.get(written.key)
    if isinstance(before, ProvenanceDocument) and before.topic_id == topic_id:
        # Nothing was copied since the link let go of it last: the range is the same.
        return replace(written, offset_begin=min(written.offset_begin, before.offset_begin))
    return written
