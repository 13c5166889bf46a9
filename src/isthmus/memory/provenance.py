"""The provenance of a topic's records, as the ledgers of the clusters that have it remember."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Final, Literal

from isthmus.errors import ClusterError
from isthmus.kafka.admin.brokers import describe_cluster
from isthmus.kafka.metadata import NO_TOPIC_ID
from isthmus.lanes.maps import lane_cursors
from isthmus.ledger.documents.kinds import BeginningDocument, Document, LinkDocument, ProvenanceDocument, TopicDocument
from isthmus.ledger.generations import in_force, written_of_lanes
from isthmus.memory.leaving import begins_at, left_in_tier
from isthmus.memory.links import read_ledger
from isthmus.memory.named import Opened
from isthmus.model.cluster import Cluster
from isthmus.model.kafka.topic import LeftInTier
from isthmus.model.links.promotion import TornTransaction, torn_in_words
from isthmus.model.links.transform import Transform
from isthmus.model.naming import SourceTopic
from isthmus.model.problem import Problem, problem_of
from isthmus.model.text.plain import Hidden, NumberOrNull, PlainValue, TextOrNull, computed_field, instant_or_null

_ALL: Final = -1
_FOLLOWS: Final = "follows"
"""The value in place of the verb while the link follows."""
LEFT: Final = "left in the source's tier"
"""The verb of offsets that were not copied (`topics.remote: leave`)."""


def _null_if_unheard(age_s: float) -> float | None:
    return None if age_s < 0 else round(age_s, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeBy:
    """From `offset_begin` of a partition on, which came from `source_offset`, records were changed by the `transform`
    with this id, null for as they are. It does so as `described`, null if its link does not have it any more.
    """

    partition: int
    offset_begin: int
    source_offset: int
    transform: TextOrNull
    described: TextOrNull

    def __str__(self) -> str:
        what = f"{self.transform} ({self.described or 'an earlier one'})" if self.transform else "none"
        return f"{what} from {self.partition}: {self.offset_begin:,}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin(PlainValue):
    """The origin of a topic's records; unknown values are null.

    Offsets `[offset_begin, offset_end)` of a partition came from `source_topic` of a cluster by a link.

    `offset_end` is -1 where that link follows still, or it is unknown how far that goes; where it `is_mapped` records
    of others may lie between. `partition` is -1 where it is about all of them, from their first offset on. `verb` is
    what ended it, "follows" while nothing has; `missing_records` more the source was known to have when it was last
    heard, `heard_s` before that (-1 where it is not known), and it `ends_within` these committed transactions (`None`
    where that is not known); "left in the source's tier" means that these offsets of the source were not copied, and
    are in its remote tier. `transforms` are those that changed records on their way, one after the other in each
    partition. `is_of_former_topic` means that the topic was deleted and created since.
    """

    cluster: str
    topic: str
    partition: NumberOrNull
    offset_begin: int
    offset_end: NumberOrNull
    source_cluster: str
    source_topic: SourceTopic
    link: str
    verb: str
    is_mapped: Hidden[bool] = False
    missing_records: NumberOrNull = -1
    heard_s: Annotated[float, "source_heard_seconds_before", _null_if_unheard] = -1.0
    ends_within: tuple[TornTransaction, ...] | None = None
    transforms: tuple[MadeBy, ...] = ()
    by: TextOrNull = ""
    at_ms: Annotated[int, "at", instant_or_null] = -1
    is_of_former_topic: Annotated[bool, "former_topic"] = False

    @property
    def end_in_words(self) -> str:
        """The end of the range, for people."""
        if self.offset_end >= 0:
            return f"{self.offset_end:,}"
        return "open" if self.verb == _FOLLOWS else "unknown"

    @property
    def missing_in_words(self) -> str:
        """How much more the source had, as far as it was heard, for people; "" while the link follows."""
        if self.verb in (_FOLLOWS, LEFT):
            return ""
        if self.missing_records < 0:
            return "unknown"
        heard = f", heard {self.heard_s:,.0f} s before" if self.heard_s > 0 else ""
        heard = ", heard at an unknown time" if self.heard_s < 0 else heard
        return f"{self.missing_records:,}{heard}"

    @property
    def transactions_in_words(self) -> str:
        """The committed transactions that the range ends within, for people; "" for none, or while the link follows."""
        return "" if self.verb in (_FOLLOWS, LEFT) else torn_in_words(self.ends_within)

    @computed_field(before="source_cluster")
    def offsets(self) -> Literal["same", "mapped"]:
        return "mapped" if self.is_mapped else "same"


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance(PlainValue):
    """Where a topic's records came from on each cluster, and `away`: why some of these could not be asked, by alias."""

    origins: tuple[Origin, ...]
    away: Mapping[str, Problem]


async def provenance_of(opened: Opened, topic: str) -> Provenance:
    """Read where a topic's records came from on each cluster, and why some of these could not be asked."""
    found: list[Origin] = []
    names: dict[str, str] = {}
    problems: dict[str, Problem] = {}

    async def ask(cluster: Cluster) -> None:
        try:
            client = opened.session.client(cluster)
            names[(await describe_cluster(client)).cluster_id] = cluster.alias
            topic_id = (await client.metadata([topic])).topics[topic].topic_id
            documents = (await read_ledger(client)).documents()
        except ClusterError as error:
            problems[cluster.alias] = problem_of(error)
        else:
            known = {each.name: each.transforms for each in opened.configuration.links}
            origins = _origins(cluster.alias, topic, topic_id, documents)
            found.extend(_with_transforms(each, documents, known.get(each.link, ())) for each in origins)

    await asyncio.gather(*map(ask, opened.configuration.clusters))
    named = (replace(each, source_cluster=names.get(each.source_cluster, each.source_cluster)) for each in found)
    order = sorted(named, key=lambda each: (each.cluster, each.partition, each.offset_begin, each.at_ms))
    return Provenance(origins=tuple(order), away=problems)


def _with_transforms(origin: Origin, documents: Mapping[str, Document], known: Iterable[Transform]) -> Origin:
    """Add which transforms made records, as the ledger states it."""
    if not origin.is_mapped or origin.is_of_former_topic:
        return origin
    cursors = lane_cursors(origin.link, documents)
    described = {each.digest: each.described for each in known}
    made = tuple(
        MadeBy(
            partition=key.partition,
            offset_begin=each.target_offset,
            source_offset=each.source_offset,
            transform=each.transform,
            described=described.get(each.transform, ""),
        )
        for key, written in sorted(written_of_lanes(origin.link, documents).items())
        if key.topic == origin.topic and origin.partition in (_ALL, key.partition) and key in cursors
        for each in in_force(written, cursors[key])
        if origin.offset_end < 0 or each.target_offset < origin.offset_end
    )
    return replace(origin, transforms=made)


def _origins(alias: str, topic: str, topic_id: uuid.UUID, documents: Mapping[str, Document]) -> Iterable[Origin]:
    sources = {each.link: each.source_cluster_id for each in LinkDocument.find_all(documents.values())}
    left = [each for each in ProvenanceDocument.find_all(documents.values()) if each.topic == topic]
    for each in left:
        origin = Origin(
            cluster=alias,
            topic=topic,
            partition=each.partition,
            offset_begin=each.offset_begin,
            offset_end=each.offset_end,
            source_cluster=each.source_cluster,
            source_topic=each.source_topic,
            link=each.link,
            verb=each.verb,
            is_mapped=each.is_mapped,
            missing_records=each.missing_records,
            heard_s=each.heard_s,
            ends_within=each.ends_within,
            by=each.by,
            at_ms=each.at_ms,
            is_of_former_topic=NO_TOPIC_ID not in (each.topic_id, topic_id) and each.topic_id != topic_id,
        )
        yield origin
        if each.left_begin < each.left_end:
            yield _left_origin(origin, LeftInTier(each.partition, each.left_begin, each.left_end))
    let_go = {each.link for each in left}
    for known in TopicDocument.find_all(documents.values()):
        if known.target_topic == topic:
            begins = _followed_begins(known, topic_id, documents, is_let_go=known.link in let_go)
            rows = [
                Origin(
                    cluster=alias,
                    topic=topic,
                    partition=partition,
                    offset_begin=begin,
                    offset_end=-1,
                    source_cluster=sources.get(known.link, ""),
                    source_topic=known.source_topic,
                    link=known.link,
                    verb=_FOLLOWS,
                    is_mapped=known.is_mapped,
                )
                for partition, begin in begins.items()
            ]
            yield from rows
            for stretch in left_in_tier(known, documents):
                if rows and not stretch.is_empty:
                    yield _left_origin(rows[0], stretch)


def _followed_begins(
    known: TopicDocument, topic_id: uuid.UUID, documents: Mapping[str, Document], *, is_let_go: bool
) -> dict[int, int]:
    """Return where the partitions begin that a link writes now: -1 for all of them, and none if it follows no more."""
    link, topic = known.link, known.target_topic
    beginning = BeginningDocument.find(documents, link, topic)
    if beginning is None:
        # A release that did not write down where it began.
        return {} if is_let_go else {_ALL: 0}
    if beginning.is_over:
        return {}
    partitions = [partition for partition, _ in beginning.begins] if beginning.is_about(topic_id) else []
    begins = {each: begins_at(link, topic, each, topic_id, documents) for each in partitions}
    return begins if any(begins.values()) else {_ALL: 0}


def _left_origin(origin: Origin, stretch: LeftInTier) -> Origin:
    """Return the origin of records that a link did not copy: they are at the source."""
    return replace(
        origin,
        partition=stretch.partition,
        offset_begin=stretch.offset_begin,
        offset_end=stretch.offset_end,
        verb=LEFT,
        is_mapped=False,
        missing_records=-1,
        heard_s=-1.0,
        ends_within=None,
    )
