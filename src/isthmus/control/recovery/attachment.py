"""Whether a link still attaches a topic, and between the clusters it was made for: asked again before each deletion."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from isthmus.control.links.filtering import operated
from isthmus.control.links.identity import cluster_ids, known_identity
from isthmus.control.links.memory import LinkMemory, recollect
from isthmus.errors import PlanRefused
from isthmus.ledger.declared import declaration_of
from isthmus.model.declaration import Declaration
from isthmus.model.link import Link
from isthmus.model.namespace import NamespaceNaming
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.wire.client import Client


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkAttachment:
    """The attachment of a link's topics to its source, as it is at each call.

    `current` is the link as the configuration, or whoever runs it, has it by now; `None` where that has it no more.
    """

    current: Callable[[], Link | None]
    name: str
    source: Client
    target: Client

    async def link(self) -> Link:
        """The link with what it attaches and selects now.

        :raises PlanRefused: It attaches nothing any more, or one of its clusters is another one.
        :raises ClusterError: A cluster does not answer, or its ledger cannot be read.
        """
        link = self.current()
        if link is None:
            raise PlanRefused(
                f"link {self.name} is not run as it was any more",
                hint="isthmus plan shows what the configuration has by now.",
            )
        known = await recollect(self.name, self.target)
        source_id, target_id = await cluster_ids(link, self.source, self.target)
        known_identity(self.name, known.documents, source_id=source_id, target_id=target_id)
        if isinstance(link.topics.naming, NamespaceNaming):
            said = _declaration(known, await recollect(self.name, self.source))
            self._check(said, source_id, target_id)
            topics = tuple(each for each in said.maps if each.kind == "topic")
            link = replace(link, topics=replace(link.topics, naming=NamespaceNaming(topics)))
        return operated(link, known.documents)

    async def require(self, topic: TargetTopic, source_topic: SourceTopic) -> None:
        """See that the link still mirrors a topic.

        :raises PlanRefused: It does not.
        :raises ClusterError: As of `link`.
        """
        if (await self.link()).topics.target_of(source_topic) != topic:
            raise PlanRefused(
                f"link {self.name} does not mirror topic {topic} any more: the topic is left as it is",
                hint=f"isthmus filters {self.name} and isthmus plan show what the link mirrors.",
            )

    def _check(self, said: Declaration, source_id: str, target_id: str) -> None:
        ends = (said.source.cluster_id, said.target.cluster_id) if said.is_whole else None
        if ends != (source_id, target_id) or said.is_deleted or not said.maps:
            raise PlanRefused(
                f"link {self.name} attaches nothing any more",
                hint=f"isthmus link describe {self.name} says what became of it.",
            )


def _declaration(there: LinkMemory, here: LinkMemory) -> Declaration:
    """What was said of the link at either cluster: one may not have heard of it yet."""
    return declaration_of(there.link, [*there.documents.values(), *here.documents.values()])
