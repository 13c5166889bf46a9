"""Whether a link still attaches a topic, and between the clusters it was made for: checked before each deletion."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from isthmus.errors import PlanRefused
from isthmus.kafka.client import Client
from isthmus.ledger.documents.declared import declaration_of
from isthmus.memory.filtering import apply_overrides
from isthmus.memory.identity import cluster_ids, known_identity
from isthmus.memory.links import LinkMemory, recollect
from isthmus.model.link import Link
from isthmus.model.links.declaration import Declaration
from isthmus.model.namespace import NamespaceNaming
from isthmus.model.naming import SourceTopic, TargetTopic


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkAttachment:
    """The attachment of a link's topics to its source, as it is at each call.

    `current` returns the link as the configuration, or its controller, has it by now; `None` where it is gone there.
    """

    current: Callable[[], Link | None]
    name: str
    source: Client
    target: Client

    async def link(self) -> Link:
        """Return the link with what it attaches and selects now.

        :raises PlanRefused: It attaches nothing any more, or one of its clusters is another one.
        :raises ClusterError: A cluster does not answer, or its ledger cannot be read.
        """
        link = self.current()
        if link is None:
            raise PlanRefused(
                f"link {self.name} is not run as it was any more",
                hint="isthmus plan shows the present configuration.",
            )
        known = await recollect(self.name, self.target)
        source_id, target_id = await cluster_ids(link, self.source, self.target)
        known_identity(self.name, known.documents, source_id=source_id, target_id=target_id)
        if isinstance(link.topics.naming, NamespaceNaming):
            declaration = _declaration(known, await recollect(self.name, self.source))
            self._check(declaration, source_id, target_id)
            topics = tuple(each for each in declaration.maps if each.kind == "topic")
            link = replace(link, topics=replace(link.topics, naming=NamespaceNaming(topics)))
        return apply_overrides(link, known.documents)

    async def require(self, topic: TargetTopic, source_topic: SourceTopic) -> None:
        """Require that the link still mirrors a topic.

        :raises PlanRefused: It does not mirror the topic.
        :raises ClusterError: As of `link`.
        """
        if (await self.link()).topics.target_of(source_topic) != topic:
            raise PlanRefused(
                f"link {self.name} does not mirror topic {topic} any more: the topic is left as it is",
                hint=f"isthmus filters {self.name} and isthmus plan show the topics that the link mirrors.",
            )

    def _check(self, declaration: Declaration, source_id: str, target_id: str) -> None:
        ends = (declaration.source.cluster_id, declaration.target.cluster_id) if declaration.is_whole else None
        if ends != (source_id, target_id) or declaration.is_deleted or not declaration.maps:
            raise PlanRefused(
                f"link {self.name} attaches nothing any more",
                hint=f"isthmus link describe {self.name} shows its present state.",
            )


def _declaration(there: LinkMemory, here: LinkMemory) -> Declaration:
    """Return the declaration of the link from both clusters: one may not know the latest yet."""
    return declaration_of(there.link, [*there.documents.values(), *here.documents.values()])
