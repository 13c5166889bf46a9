"""The topics of its source that a link mirrors, and their names at the target."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from isthmus.kafka import codes
from isthmus.kafka.admin.topics import selected_topics
from isthmus.kafka.client import Client
from isthmus.kafka.metadata import Metadata, TopicMetadata
from isthmus.model.naming import NamedTopics, SourceTopic, TargetTopic
from isthmus.model.selection import TopicSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundTopics:
    """The topics that a link selects: `metadata` is the source's, by its own names, and `names` those at the target.

    Those included by name are there with an error if the source does not have them.
    """

    metadata: Metadata
    names: NamedTopics

    def at_source(self, name: TargetTopic) -> TopicMetadata | None:
        """Return the source's metadata of the topic that is mirrored into another."""
        source = self.names.sources.get(name)
        return None if source is None else self.metadata.topics.get(source)

    @property
    def there(self) -> dict[TargetTopic, SourceTopic]:
        """The topics that the source has, that may be seen, and that can have their names."""
        return {
            name: source
            for name, source in self.names.sources.items()
            if name not in self.names.refused and self.metadata.topics[source].error_code == codes.NONE
        }


async def find_topics(source: Client, topics: TopicSettings) -> FoundTopics:
    """Find the topics that settings select, among those that may be seen (DESCRIBE on the topic).

    :raises ClusterError: The source did not answer.
    """
    metadata = await selected_topics(source, topics)
    return FoundTopics(metadata=metadata, names=named_topics(topics, metadata.topics))


def named_topics(topics: TopicSettings, names: Iterable[str]) -> NamedTopics:
    """Return the names at the target of these topics of the source. Topics that settings include by name although their
    naming leaves them out are refused, under the names they have at the source.
    """
    found = topics.name_topics(names)
    literal = topics.nameless(topics.literals)
    refused = {TargetTopic(name): name for name in literal if TargetTopic(name) not in found.sources}
    return NamedTopics(
        sources={**found.sources, **refused},
        refused={**found.refused, **{name: topics.why_nameless(own) for name, own in refused.items()}},
    )
