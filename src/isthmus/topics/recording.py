"""The documents of a link's topics in the ledger: for `status`, and for carrying groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from isthmus.kafka.metadata import NO_TOPIC_ID
from isthmus.ledger.documents.kinds import Document, TopicDocument
from isthmus.memory.links import recorded_topics
from isthmus.model.kafka.topic import TopicIds
from isthmus.model.lane import LaneKey, LaneReport, LaneState
from isthmus.model.naming import TargetTopic
from isthmus.topics.endings import ended_partitions
from isthmus.topics.plan import TopicPlan


def build_document(link: str, topic: TargetTopic, ids: TopicIds) -> TopicDocument:
    """Return the document of a topic whose first lanes are about to run."""
    return TopicDocument(
        link=link,
        source_topic=ids.source_topic,
        source_topic_id=ids.source,
        target_topic=topic,
        target_topic_id=ids.target,
        state=LaneState.ACTIVE,
        is_mapped=ids.is_mapped,
        left=ids.left,
        first_partitions=ids.first_partitions,
        settles=ids.settles,
    )


def wanted_topics(link: str, topics: Iterable[TopicPlan], documents: Mapping[str, Document]) -> Iterator[TopicDocument]:
    """Yield documents of topics about to be begun, so that others leave them, as far as `documents` lack them."""
    recorded = _begun_topics(link, documents)
    for topic in topics:
        unpaired = TopicIds(source_topic=topic.source_topic, source=NO_TOPIC_ID, target=NO_TOPIC_ID)
        document = replace(
            build_document(link, topic.topic, recorded.get(topic.topic, unpaired)), state=LaneState.STARTING
        )
        document = replace(document, is_mapped=topic.is_mapped)
        known = TopicDocument.find(documents, link, topic.topic)
        if known is not None:
            document = replace(document, ended=known.ended)
            is_said = known.problem is None and known == replace(document, state=known.state, left=known.left)
        if known is None or not is_said:
            yield document


def changed_topics(
    link: str, topics: Iterable[TopicPlan], documents: Mapping[str, Document], reports: Mapping[LaneKey, LaneReport]
) -> Iterator[TopicDocument]:
    """Yield documents of refused topics and ended partitions with reasons, as far as `documents` lack them."""
    every, recorded = recorded_topics(link, documents), _begun_topics(link, documents)
    for topic in topics:
        unpaired = TopicIds(source_topic=topic.source_topic, source=NO_TOPIC_ID, target=NO_TOPIC_ID)
        # A topic that was to be forgotten is known again where it is in the way.
        known_ids = every if topic.state is LaneState.TOPIC_RECREATED else recorded
        document = build_document(link, topic.topic, known_ids.get(topic.topic, unpaired))
        known = TopicDocument.find(documents, link, topic.topic)
        if topic.reasons:
            document = replace(document, state=topic.state, problem=topic.reasons[0])
        elif topic.state is LaneState.SOURCE_DELETED:
            document = replace(document, state=topic.state, problem=topic.kept)
        elif topic.topic not in recorded and known is not None and known.is_wanted:
            # The topic has no lanes yet.
            document = replace(document, state=LaneState.STARTING, is_mapped=topic.is_mapped)
        before = () if known is None else known.ended
        document = replace(document, ended=ended_partitions(topic, before, reports))
        if document != known and (known is not None or topic.reasons):
            yield document


def _begun_topics(link: str, documents: Mapping[str, Document]) -> dict[TargetTopic, TopicIds]:
    return {name: ids for name, ids in recorded_topics(link, documents).items() if not ids.is_forgotten}
