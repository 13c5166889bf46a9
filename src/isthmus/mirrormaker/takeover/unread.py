"""Topics that MirrorMaker 2 may have copied and that cannot be looked at: they count neither as new nor as gone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Self

from isthmus.kafka.admin.topics import known_absent
from isthmus.kafka.client import Client
from isthmus.model.kafka.rights import on_topic
from isthmus.model.link import Link
from isthmus.model.naming import SourceTopic, SourceTopicPartition, TargetTopic
from isthmus.model.problem import Problem
from isthmus.topics.observation import ObservedLink


@dataclass(frozen=True, slots=True)
class Unread:
    """`problems` has the reason for each, with its name at the source. `gone` are topics of the source that MirrorMaker
    2 has positions of, and that no broker of the source has.
    """

    problems: Mapping[TargetTopic, tuple[SourceTopic, Problem]]
    gone: frozenset[str]

    @classmethod
    async def look(
        cls,
        observed: ObservedLink,
        link: Link,
        committed: Iterable[SourceTopicPartition],
        source: Client,
        target: Client,
    ) -> Self:
        """Ask about topics that were observed with a problem, and those with positions that the source does not show.

        :raises ClusterError: A cluster does not answer.
        """
        names = observed.names.sources
        claimed = link.topics.name_topics({topic for topic, _ in committed}).sources
        unseen = {name: own for name, own in claimed.items() if name not in names or name in observed.absent}
        gone = await known_absent(source, list(unseen.values()))
        broken = {name: problem for name, problem in observed.problems.items() if name not in observed.absent}
        # A topic that the target does not have has no copy, so it is new once it can be looked at.
        new = (await known_absent(target, list(broken))) - claimed.keys()
        hidden = {
            name: (own, _hidden_problem(own, link.source.alias)) for name, own in unseen.items() if own not in gone
        }
        shown = {name: (names[name], problem) for name, problem in broken.items() if name not in new}
        return cls({**hidden, **shown}, gone)


def _hidden_problem(name: str, alias: str) -> Problem:
    return Problem(
        f"MirrorMaker 2 has positions of it, and {alias} does not show it, nor report that it has no such topic",
        f"Grant {on_topic('DESCRIBE', name)}, and call this again.",
    )
