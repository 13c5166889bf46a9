"""A topic that goes on behind the place where both sides parted: what the ledger is told so that its lanes do.

The target's topic stays as it is. Up to the last shared offset its map says that offsets are the same; what stands
behind is in no range of it, so it is somebody else's; and the lane's place is the target's end. Nothing of the lane
lies behind that place yet, so all that it appends there is found again by its producer, as with any mapped lane.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from isthmus.cluster.offsets import leaders_of
from isthmus.cluster.producers import active_producers
from isthmus.control.groups.returning import home_position
from isthmus.control.links.claims import Claims
from isthmus.control.links.hearing import is_run
from isthmus.control.links.memory import LinkMemory, now_ms, recorded_topics
from isthmus.control.links.others import claims_around, selection
from isthmus.control.links.parted import parted_topics
from isthmus.control.pool import ClusterPool
from isthmus.control.recovery.sides import BothTopics
from isthmus.control.topics.observation import observe
from isthmus.control.topics.planning import plan_link
from isthmus.control.topics.recording import begun
from isthmus.errors import PlanRefused
from isthmus.lane.target import DESCRIBE_PRODUCERS
from isthmus.ledger.documents import GapDocument, LinkDocument, MapDocument, PartedDocument, RecoveryDocument
from isthmus.ledger.maps import LaneMap
from isthmus.ledger.records import Deletion, LedgerChange
from isthmus.model.cluster import Cluster
from isthmus.model.link import Link
from isthmus.model.naming import NamedTopics, SourceTopic, TargetTopic
from isthmus.model.offsets import Cursor
from isthmus.model.recovery import DivergedPartition, HeldPosition
from isthmus.model.rights import on_topic
from isthmus.model.topic import Parted, TopicDescription, TopicIds
from isthmus.model.translation import MappedRange
from isthmus.wire import codes
from isthmus.wire.client import Client
from isthmus.wire.offsets import PartitionKey

_SEGMENT: Final = "parted"


def is_parted(known: LinkMemory, source: TopicDescription, target: TopicDescription) -> bool:
    """Whether a topic goes on with mapped offsets since both sides had parted, as the topics that they are."""
    ids = parted_topics(known.link, known.documents).get(TargetTopic(target.name))
    return ids is not None and (ids.source, ids.target) == (source.topic_id, target.topic_id)


def parted_traces(known: LinkMemory, topic: TargetTopic) -> list[Deletion]:
    """What is to go from the ledger when a topic that went on mapped is built anew."""
    document = known.documents.get(f"{PartedDocument.KIND}/{known.link}/{topic}")
    if not isinstance(document, PartedDocument):
        return []
    maps = (each for each in known.documents.values() if isinstance(each, MapDocument) and each.topic == topic)
    gone = [each.key for each in maps if each.target_topic_id == document.target_topic_id]
    return [Deletion(key) for key in (document.key, *gone)]


def said_of_parted(known: LinkMemory, topic: TargetTopic, *, is_run: bool) -> list[LedgerChange]:
    """What the ledger has of a topic's going on mapped: to be written again where that was cut off. It counts although
    it was not committed, but brokers drop it one day.
    """
    parted = known.documents.get(f"{PartedDocument.KIND}/{known.link}/{topic}")
    if not isinstance(parted, PartedDocument):
        return []
    begun_as = known.topics.get(topic)
    # Whoever runs the link says itself what it has begun.
    said: list[LedgerChange] = [] if begun_as is None or is_run else [begun_as]
    for each in known.documents.values():
        if isinstance(each, MapDocument) and each.topic == topic:
            said += [each] if (each.segment, each.target_topic_id) == (_SEGMENT, parted.target_topic_id) else []
        elif isinstance(each, GapDocument) and each.topic == topic:
            said.append(each)
    return [*said, parted]


def told_by_map(held: HeldPosition, lane: LaneMap | None) -> HeldPosition:
    """A position with what it is at the source, if the map of its partition tells."""
    home = None if lane is None else home_position(lane, held.offset)
    return held if home is None else held._replace(at_source=home)


async def require_mappable(
    link: Link, pool: ClusterPool, clusters: Iterable[Cluster], topic: TargetTopic, source_topic: SourceTopic
) -> None:
    """See that a topic can go on with mapped offsets: nothing of it is changed to find out.

    :raises PlanRefused: It cannot, for a reason that is told.
    :raises ClusterError: A cluster does not answer.
    """
    source, target = pool.client(link.source), pool.client(link.target)
    claims = Claims()
    for told in await claims_around(source, target, map(pool.client, clusters), [link], selection([link])):
        claims.hear(told)
    observed = await observe(link, source, target, names=NamedTopics(sources={topic: source_topic}))
    pair = observed.pairs.get(topic)
    parted: dict[TargetTopic, TopicIds] = {}
    if pair is not None and pair.target is not None:
        parted[topic] = TopicIds(
            source_topic=source_topic,
            source=pair.source.topic_id,
            target=pair.target.topic_id,
            is_mapped=True,
            parted=Parted("", now_ms()),
        )
    plan = plan_link(observed, claims, parted)
    for problem in [each for planned in plan.topics for each in planned.reasons]:
        raise PlanRefused(f"{topic} cannot go on with mapped offsets: {problem.message}", hint=problem.hint)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parting:
    """A topic that has diverged and is to go on: `both` are its sides while nobody writes to the target, `partitions`
    how far they are alike, `known` what the ledger says. `document` says who had it so.
    """

    link: Link
    target: Client
    known: LinkMemory
    both: BothTopics
    there: TopicDescription
    document: RecoveryDocument

    async def changes(self) -> list[LedgerChange]:
        """The maps of all partitions up to where they go on, and behind them what says that the topic does.

        :raises ClusterError: A leader of the target does not tell what it remembers of the link's producer.
        """
        partitions = [each for each in self.document.partitions if each.partition < self.both.source.partition_count]
        ordinals = await self._ordinals([each.partition for each in partitions])
        maps = [self._map(each, ordinals.get(each.partition, each.shared)) for each in partitions]
        return [*maps, *self._declaration(is_run=await is_run(self.link.name, self.target))]

    def _declaration(self, *, is_run: bool) -> list[LedgerChange]:
        document = self.document
        parted = PartedDocument(
            link=self.link.name,
            topic=document.topic,
            source_topic=document.source_topic,
            source_topic_id=self.both.source.topic_id,
            target_topic_id=self.there.topic_id,
            partitions=document.partitions,
            by=document.by,
            at_ms=document.at_ms,
        )
        changes: list[LedgerChange] = [parted]
        if not is_run:
            # Whoever runs the link says so itself.
            changes.append(begun(self.link.name, document.topic, self._ids()))
        return changes + [
            GapDocument(
                link=self.link.name,
                topic=document.topic,
                partition=each.partition,
                offset_begin=each.shared,
                offset_end=each.goes_on_at,
            )
            for each in document.partitions
            if each.target_end > 0 and each.shared < each.goes_on_at
        ]

    def _ids(self) -> TopicIds:
        before = recorded_topics(self.link.name, self.known.documents).get(self.document.topic)
        return TopicIds(
            source_topic=self.document.source_topic,
            source=self.both.source.topic_id,
            target=self.there.topic_id,
            is_mapped=True,
            left=() if before is None else before.left,
        )

    def _map(self, each: DivergedPartition, ordinal: int) -> MapDocument:
        cursor = Cursor(each.goes_on_at, ordinal, each.target_end, first_ordinal=ordinal, continues_another=True)
        return MapDocument(
            link=self.link.name,
            topic=self.document.topic,
            partition=each.partition,
            segment=_SEGMENT,
            ordinal_begin=ordinal,
            ranges=(MappedRange(0, 0, each.shared),) if each.shared else (),
            cursor=cursor,
            begin=0,
            source_topic_id=self.both.source.topic_id,
            target_topic_id=self.there.topic_id,
        )

    async def _ordinals(self, partitions: Collection[int]) -> dict[int, int]:
        """From which number on lanes count where a leader remembers the link's producer: it takes no other one."""
        identity = self.known.documents.get(f"{LinkDocument.KIND}/{self.link.name}")
        if not isinstance(identity, LinkDocument):
            return {}
        keys = [(str(self.document.topic), partition) for partition in partitions]
        leaders, leaderless = leaders_of(await self.target.metadata([self.document.topic]), keys)
        for (topic, partition), code in leaderless.items():
            alias, what = self.target.cluster.alias, f"finding the leader of {topic}-{partition}"
            codes.raise_for_code(code, what, on_topic("DESCRIBE", topic), cluster=alias)
        asked: dict[PartitionKey, int] = {}
        for node, epochs in leaders.items():
            if DESCRIBE_PRODUCERS in (await self.target.connection(node)).api_versions:
                asked.update(dict.fromkeys(epochs, node))
        found = await active_producers(self.target, asked)
        for error in found.errors.values():
            raise error
        return {
            partition: each.last_sequence + 1
            for (_, partition), producers in found.values.items()
            for each in producers
            if each.producer_id == identity.producer_id and each.last_sequence >= 0
        }
