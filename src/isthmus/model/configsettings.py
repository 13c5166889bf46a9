"""The configurations of a link's topics that are kept as at the source, and those that the target has for itself.

Patterns are written as for topics: a name, a `prefix*` or a `/regex/`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, Self

from isthmus.errors import ConfigError
from isthmus.model.naming import SourceTopic
from isthmus.model.selection import TopicPattern
from isthmus.model.text.patterns import NamePattern

DefaultsFrom = Literal["target", "source"]


@dataclass(frozen=True, slots=True)
class PropertyPattern(NamePattern):
    """One pattern of topic configurations, such as `retention.*`."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a pattern as people write it; `str` gives the same text back.

        :raises ConfigError: It is empty, or the expression is broken.
        """
        if not text:
            raise ConfigError(
                "'' matches no configuration", hint="Write a configuration's name, a prefix*, a /regex/, or * for all."
            )
        return cls.split(text)


OF_EACH_CLUSTER: Final = (
    "follower.replication.throttled.replicas",
    "leader.replication.throttled.replicas",
    "min.insync.replicas",
    "unclean.leader.election.enable",
    "remote.*",
    "local.retention.*",
)
"""Configurations that depend on a cluster's brokers and disks; but for the last two, MirrorMaker 2 leaves out the same
ones by default.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptConfigs:
    """The configurations that topics keep for themselves at the target. Topics are named as at the source."""

    topics: TopicPattern
    properties: tuple[PropertyPattern, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigSettings:
    """The settings for the configurations of a link's topics.

    If `sync` is not given, topics with the source's offsets are synced; mapped topics, to which others may write as
    well, are not. `use_defaults_from` decides about a configuration that the source does not set: the target's own
    default, or the value that the source has by default. Both sides are compared every `interval_s`.
    """

    sync: bool | None = None
    exclude: tuple[PropertyPattern, ...] = tuple(map(PropertyPattern.parse, OF_EACH_CLUSTER))
    keep: tuple[KeptConfigs, ...] = ()
    use_defaults_from: DefaultsFrom = "target"
    interval_s: float = 600.0

    def covers(self, *, is_mapped: bool) -> bool:
        """Return whether a topic with mapped offsets, or with the source's, is synced."""
        return not is_mapped if self.sync is None else self.sync

    def is_excluded(self, name: str) -> bool:
        """Return whether a configuration is synced for no topic."""
        return any(pattern.matches(name) for pattern in self.exclude)

    def keeps(self, topic: SourceTopic, name: str) -> bool:
        """Return whether a topic keeps its own value of a configuration at the target."""
        return any(
            kept.topics.matches(topic) and any(pattern.matches(name) for pattern in kept.properties)
            for kept in self.keep
        )
