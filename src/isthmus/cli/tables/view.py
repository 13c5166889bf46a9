"""The selection and the order of rows: for tables, for programs and for the screen of `--watch`."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from isthmus.model.links.progress import LinkProgress, PartitionProgress, TopicProgress, attention
from isthmus.model.state import RUNNING, LinkState
from isthmus.model.text.patterns import NamePattern

Item = TopicProgress | PartitionProgress
Shown = tuple[LinkProgress, Item | None]
"""A topic or a partition with its link; `None` for a link that has none to show."""
_CALM = (*RUNNING, LinkState.STARTING, LinkState.STANDBY, LinkState.PAUSED, LinkState.STOPPED)
"""The obstacles of an IMPAIRED link show in its topics."""


class Sorting(enum.StrEnum):
    """The orders of rows."""

    NAME = "name"
    """Links as they are configured, topics by their names."""
    LAG = "lag"
    """The longest lag first, and before all those of unknown lag."""
    STATE = "state"
    """Those that need an operator first, of these the longest lag."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The selection of topics (all, or those that match any of `topics` by either name) and their order."""

    topics: tuple[NamePattern, ...] = ()
    sorting: Sorting = Sorting.NAME
    is_of_problems: bool = False

    def of(self, links: Sequence[LinkProgress]) -> tuple[LinkProgress, ...]:
        """Return the links with the selected topics, sorted; links without any are left out."""
        narrowed = [self._narrow(link) for link in links]
        return tuple(sorted((link for link in narrowed if link is not None), key=self._link_key))

    def items(self, links: Sequence[LinkProgress], *, by_partition: bool) -> list[Shown]:
        """Return topics or partitions of all links, sorted as one list."""
        return sorted(self._items(links, by_partition=by_partition), key=self._key)

    def _items(self, links: Sequence[LinkProgress], *, by_partition: bool) -> Iterator[Shown]:
        for link in links:
            if not link.topics:
                yield link, None
            for topic in link.topics:
                if by_partition and topic.partitions:
                    yield from ((link, partition) for partition in topic.partitions)
                else:
                    yield link, topic

    def _narrow(self, link: LinkProgress) -> LinkProgress | None:
        topics = [topic for topic in link.topics if self._has(topic)]
        if self.topics and not topics:
            return None
        if self.is_of_problems:
            topics = [_only_problems(topic) for topic in topics if topic.is_unfinished]
            if not topics and not _has_problem(link):
                return None
        return replace(link, topics=tuple(sorted(topics, key=lambda topic: self._key((link, topic)))))

    def _has(self, topic: TopicProgress) -> bool:
        names = (topic.topic, topic.source_topic)
        return not self.topics or any(pattern.matches(name) for pattern in self.topics for name in names)

    def _link_key(self, link: LinkProgress) -> tuple[float, ...]:
        urgent = 0.0 if link.state in _CALM else 1.0
        worst = max((attention(topic.state) for topic in link.topics), default=0)
        return {
            Sorting.NAME: (),
            Sorting.LAG: (-_lag(link),),
            Sorting.STATE: (-urgent, -float(worst), -_lag(link)),
        }[self.sorting]

    def _key(self, shown: Shown) -> tuple[float, ...]:
        """Return the sort key of a row; equal ones keep their order."""
        link, item = shown
        if self.sorting is Sorting.NAME:
            return ()
        lag = _lag(link if item is None else item)
        if self.sorting is Sorting.LAG:
            return (-lag,)
        urgency = (3 if link.state not in _CALM else 0) if item is None else attention(item.state)
        has_problem = (link if item is None else item).problem is not None
        return (-float(urgency), -float(has_problem), -lag)


def _lag(found: LinkProgress | Item) -> float:
    """Return the records to copy; an unknown number may be any."""
    return found.lag_records if found.lag_records >= 0 else float("inf")


def _only_problems(topic: TopicProgress) -> TopicProgress:
    """Return the topic with its partitions that have a problem; with all, if the topic has one as a whole."""
    partitions = tuple(partition for partition in topic.partitions if partition.is_unfinished)
    return replace(topic, partitions=partitions) if partitions else topic


def _has_problem(link: LinkProgress) -> bool:
    """Return whether the link has a problem beside its topics: itself, its groups or its loops."""
    others = [*(group.problem for group in link.groups), *(loop.trouble for loop in link.loops)]
    return link.problem is not None or link.state not in _CALM or any(others)
