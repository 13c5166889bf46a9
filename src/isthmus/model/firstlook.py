"""What a link has looked for whose topics begin at their end: of what comes later it copies all. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Self

from isthmus.model.namespace import NamespaceNaming
from isthmus.model.naming import SourceTopic
from isthmus.model.selection import TopicPattern, TopicSettings


@dataclass(frozen=True, slots=True)
class FirstLook:
    """What a link selected when it looked at its source: patterns, and the namespaces `within` which its topics are, if
    their names come from namespaces. `waiting` are topics that were there and have not begun, sorted.
    """

    include: tuple[TopicPattern, ...] = ()
    exclude: tuple[TopicPattern, ...] = ()
    within: tuple[str, ...] = ()
    waiting: tuple[SourceTopic, ...] = ()

    @classmethod
    def of(cls, topics: TopicSettings, waiting: Iterable[SourceTopic] = ()) -> Self:
        """The look of a link with these settings."""
        naming = topics.naming
        within = tuple(str(each.source) for each in naming.maps) if isinstance(naming, NamespaceNaming) else ()
        return cls(topics.include, topics.exclude, within, tuple(sorted(waiting)))

    def with_waiting(self, topics: Iterable[SourceTopic]) -> Self:
        """The same, where these were there too."""
        return replace(self, waiting=tuple(sorted({*self.waiting, *topics})))

    def is_later(self, topic: SourceTopic, topics: TopicSettings) -> bool:
        """Whether a topic that these settings select, and that has not begun, was not there at that look. What other
        settings did not select may have been there.
        """
        naming = topics.naming
        if isinstance(naming, NamespaceNaming):
            holding = {str(each.source) for each in naming.maps if each.to_target(topic) is not None}
            if holding.isdisjoint(self.within):
                return False
        return (
            topic not in self.waiting
            and any(pattern.matches(topic) for pattern in self.include)
            and not any(pattern.matches(topic) for pattern in self.exclude)
        )
