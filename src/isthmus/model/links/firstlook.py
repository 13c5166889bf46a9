"""The first look of a link whose topics begin at their end: it copies all records of topics that appear later. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Self

from isthmus.model.namespace import NamespaceNaming
from isthmus.model.naming import SourceTopic
from isthmus.model.selection import TopicPattern, TopicSettings


@dataclass(frozen=True, slots=True)
class FirstLook:
    """The selection of a link when it first looked at its source: patterns, and the namespaces `within` which its
    topics are, if their names come from namespaces. `waiting` are topics that existed and have not begun, sorted.
    """

    include: tuple[TopicPattern, ...] = ()
    exclude: tuple[TopicPattern, ...] = ()
    within: tuple[str, ...] = ()
    waiting: tuple[SourceTopic, ...] = ()

    @classmethod
    def of(cls, topics: TopicSettings, waiting: Iterable[SourceTopic] = ()) -> Self:
        """Return the look of a link with these settings."""
        naming = topics.naming
        within = tuple(str(each.source) for each in naming.maps) if isinstance(naming, NamespaceNaming) else ()
        return cls(topics.include, topics.exclude, within, tuple(sorted(waiting)))

    def with_waiting(self, topics: Iterable[SourceTopic]) -> Self:
        """Return the look with these topics as well."""
        return replace(self, waiting=tuple(sorted({*self.waiting, *topics})))

    def is_later(self, topic: SourceTopic, topics: TopicSettings) -> bool:
        """Return whether a topic that these settings select, and that has not begun, did not exist at that look. A
        topic that the former settings did not select may have existed.
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
