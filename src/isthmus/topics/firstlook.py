"""Topics and partitions that came after a link's first look for them, by its ledger. They are copied from their
beginning, where `topics.start: latest` has the others begin at their end.
"""

from __future__ import annotations

from collections.abc import Mapping

from isthmus.errors import ConfigError
from isthmus.ledger.documents.kinds import Document, FirstLookDocument
from isthmus.ledger.poison import pass_over
from isthmus.model.kafka.topic import TopicIds
from isthmus.model.links.firstlook import FirstLook
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.selection import TopicPattern, TopicSettings
from isthmus.topics.observation import ObservedLink
from isthmus.topics.preflight import TopicPair


def first_look_of(link: str, documents: Mapping[str, Document]) -> FirstLook | None:
    """Return the first look of a link, `None` if there was none."""
    document = FirstLookDocument.find(documents, link)
    if document is None:
        return None
    try:
        include, exclude = (tuple(map(TopicPattern.parse, each)) for each in (document.include, document.exclude))
    except ConfigError as error:
        pass_over(f"the record {document.key}", error)
        return None
    return FirstLook(include, exclude, document.within, document.waiting)


def first_look_document(link: str, look: FirstLook) -> FirstLookDocument:
    """Return the document for the ledger."""
    return FirstLookDocument(
        link=link,
        include=tuple(map(str, look.include)),
        exclude=tuple(map(str, look.exclude)),
        within=look.within,
        waiting=look.waiting,
    )


def begun_before(observed: ObservedLink, former: Mapping[TargetTopic, TopicIds]) -> set[SourceTopic]:
    """Return topics of the source that were there when their targets, now gone, were begun: they begin again as they
    did then. A topic that was created again is another one.
    """
    return {
        ids.source_topic
        for name, ids in former.items()
        if name in observed.pairs and observed.pairs[name].source.topic_id == ids.source
    }


def first_partitions(topics: TopicSettings, pair: TopicPair, recorded: TopicIds | None, look: FirstLook | None) -> int:
    """Return how many partitions of a mapped topic begin where `topics.start` says, without those that came later."""
    if recorded is not None and recorded.first_partitions >= 0:
        return recorded.first_partitions
    # An older release did not write down their number: those there now count as the first.
    is_later = recorded is None and look is not None and look.is_later(pair.source_name, topics)
    return 0 if is_later else pair.source.partition_count
