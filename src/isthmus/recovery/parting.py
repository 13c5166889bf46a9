"""A topic that continues behind the offset where both sides diverged: the ledger records that let its lanes do so.

The target's topic stays as it is. Up to the last shared offset its map says that offsets are the same; records behind
it are in no range of it, so they are others'; and the lane's position is the target's end. No record of the lane is
behind that position yet, so all that it appends there is found again by its producer, as with any mapped lane.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from isthmus.errors import PlanRefused, UnsupportedByBroker
from isthmus.groups.returning import home_position
from isthmus.kafka.client import Client
from isthmus.kafka.session import ClientSession
from isthmus.kafka.transactions.producers import producers_of
from isthmus.ledger.documents.kinds import GapDocument, MapDocument, PartedDocument, RecoveryDocument
from isthmus.ledger.maps import LaneMap
from isthmus.ledger.records import Deletion, LedgerChange
from isthmus.memory.claims import Claims
from isthmus.memory.hearing import is_run
from isthmus.memory.links import LinkMemory, now_ms, recorded_topics
from isthmus.memory.others import claims_around, selection
from isthmus.memory.parted import parted_topics
from isthmus.model.cluster import Cluster
from isthmus.model.kafka.topic import Parted, TopicDescription, TopicIds
from isthmus.model.link import Link
from isthmus.model.links.recovery import DivergedPartition, HeldPosition
from isthmus.model.naming import NamedTopics, SourceTopic, TargetTopic
from isthmus.model.offsets import Cursor
from isthmus.model.translation import MappedRange
from isthmus.recovery.sides import BothTopics
from isthmus.topics.observation import observe
from isthmus.topics.planning import plan_link
from isthmus.topics.recording import build_document

_SEGMENT: Final = "parted"


def is_parted(known: LinkMemory, source: TopicDescription, target: TopicDescription) -> bool:
    """Whether a topic continues with mapped offsets since both sides diverged, with both ids unchanged."""
    ids = parted_topics(known.link, known.documents).get(TargetTopic(target.name))
    return ids is not None and (ids.source, ids.target) == (source.topic_id, target.topic_id)


def parted_traces(known: LinkMemory, topic: TargetTopic) -> list[Deletion]:
    """Return the deletions for the ledger when a topic that continued mapped is built again."""
    document = PartedDocument.find(known.documents, known.link, topic)
    if document is None:
        return []
    maps = MapDocument.find_all(known.documents.values())
    gone = [each.key for each in maps if (each.topic, each.target_topic_id) == (topic, document.target_topic_id)]
    return [Deletion(key) for key in (document.key, *gone)]


def said_of_parted(known: LinkMemory, topic: TargetTopic, *, is_run: bool) -> list[LedgerChange]:
    """Return the ledger's records of a topic that continues mapped, to be written again after an interruption: they
    count although they were not committed, but brokers drop them one day.
    """
    parted = PartedDocument.find(known.documents, known.link, topic)
    if parted is None:
        return []
    begun_as = known.topics.get(topic)
    # A controller that runs the link writes itself what it has begun.
    changes: list[LedgerChange] = [] if begun_as is None or is_run else [begun_as]
    own = topic, _SEGMENT, parted.target_topic_id
    maps, gaps = MapDocument.find_all(known.documents.values()), GapDocument.find_all(known.documents.values())
    changes += [each for each in maps if (each.topic, each.segment, each.target_topic_id) == own]
    return [*changes, *(each for each in gaps if each.topic == topic), parted]


def told_by_map(held: HeldPosition, lane: LaneMap | None) -> HeldPosition:
    """Return a position with its translation at the source, if the map of its partition has it."""
    home = None if lane is None else home_position(lane, held.offset)
    return held if home is None else held._replace(at_source=home)


async def require_mappable(
    link: Link, session: ClientSession, clusters: Iterable[Cluster], topic: TargetTopic, source_topic: SourceTopic
) -> None:
    """Require that a topic can continue with mapped offsets: nothing of it is changed to find out.

    :raises PlanRefused: It cannot; the message says why.
    :raises ClusterError: A cluster does not answer.
    """
    source, target = session.client(link.source), session.client(link.target)
    claims = Claims()
    for heard in await claims_around(source, target, map(session.client, clusters), [link], selection([link])):
        claims.hear(heard)
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
    """A diverged topic that is to continue: `both` are its sides while nobody writes to the target, with how far
    `partitions` are alike, `known` is the ledger's memory. `document` names the operator.
    """

    link: Link
    target: Client
    known: LinkMemory
    both: BothTopics
    there: TopicDescription
    document: RecoveryDocument

    async def changes(self) -> list[LedgerChange]:
        """Return the maps of all partitions up to where they continue, then the record that the topic does.

        :raises ClusterError: A leader of the target does not report what it remembers of the link's producer.
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
            # A controller that runs the link writes this itself.
            changes.append(build_document(self.link.name, document.topic, self._ids()))
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
        """Return the numbers from which lanes count where a leader remembers the link's producer: it accepts no
        others.
        """
        identity = self.known.identity
        if identity is None:
            return {}
        keys = [(self.document.topic, partition) for partition in partitions]
        found = await producers_of(self.target, keys)
        for error in found.errors.values():
            if not isinstance(error, UnsupportedByBroker):
                raise error
        return {
            partition: each.last_sequence + 1
            for (_, partition), producers in found.values.items()
            for each in producers
            if each.producer_id == identity.producer_id and each.last_sequence >= 0
        }
