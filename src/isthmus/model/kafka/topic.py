"""A topic: its identity, its partitions and its effective configuration."""

from __future__ import annotations

import enum
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, NamedTuple

from isthmus.model.naming import SourceTopic
from isthmus.model.text.instant import written_instant
from isthmus.model.text.plain import TextOrNull


class ConfigSource(enum.IntEnum):
    """The source of a value, by Kafka's own numbers (KIP-226)."""

    UNKNOWN = 0
    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8

    @classmethod
    def _missing_(cls, value: object) -> ConfigSource:
        return cls.UNKNOWN


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One effective value. It is `None` if the broker hides it."""

    value: str | None
    source: ConfigSource = ConfigSource.DEFAULT
    is_sensitive: bool = False
    is_read_only: bool = False


Configs = Mapping[str, ConfigEntry]
Settings = tuple[tuple[str, str | None], ...]
"""Configurations by name; `None` stands for the broker's default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDescription:
    """One topic. `topic_id` is nil where the broker has none (before KIP-516).

    `replication_factor` is that of the partition with the most replicas.
    """

    name: str
    topic_id: uuid.UUID
    partition_count: int
    replication_factor: int
    configs: Configs

    def value(self, config: str) -> str | None:
        """Return the effective value of a configuration, `None` if the broker does not know it."""
        entry = self.configs.get(config)
        return None if entry is None else entry.value

    @property
    def cleanup_policy(self) -> str:
        """The brokers' policy for old records; empty if it is set so that they neither delete nor compact."""
        policy = self.value("cleanup.policy")
        return "delete" if policy is None else policy

    @property
    def own_configs(self) -> dict[str, str]:
        """The configurations that were set for this topic and may be set for another: no secrets, nothing read-only."""
        return {
            name: entry.value
            for name, entry in self.configs.items()
            if entry.source is ConfigSource.DYNAMIC_TOPIC
            and entry.value is not None
            and not entry.is_sensitive
            and not entry.is_read_only
        }


class LeftInTier(NamedTuple):
    """Offsets `[offset_begin, offset_end)` of a partition that stay in the source's remote tier: a copy begins behind
    them.
    """

    partition: int
    offset_begin: int
    offset_end: int

    @property
    def is_empty(self) -> bool:
        return self.offset_begin >= self.offset_end


class Parted(NamedTuple):
    """The author and the time of a topic's change to mapped offsets.

    Both sides had diverged before; `at_ms` is in ms since the epoch.
    """

    by: TextOrNull
    at_ms: Annotated[int, "since", written_instant]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicIds:
    """The topics that were paired when mirroring began: the source's name, the ids of both, and whether offsets are the
    same or mapped. `left` are the offsets that stay in the source's remote tier: a topic with the same offsets begins
    behind them.

    With `parted` offsets are mapped from the point where both sides diverged, whatever the link's offsets are.
    `first_partitions` is the number of partitions that the source had then, 0 for a topic that appeared after the
    link's first look, -1 if that was not recorded: with `topics.start: latest` later partitions begin at their
    beginning. `settles` are the configurations that the target receives when it is filled, if it was created with
    others for that. An entry that `is_forgotten` counts only if another topic came to the source under its name, and
    its copy is still there.
    """

    source_topic: SourceTopic
    source: uuid.UUID
    target: uuid.UUID
    is_mapped: bool = False
    left: tuple[LeftInTier, ...] = ()
    parted: Parted | None = None
    first_partitions: int = -1
    is_forgotten: bool = False
    settles: Settings = ()


class Rebuilt(NamedTuple):
    """A topic that was deleted and created again on purpose, by its ids; `settles` is as in `TopicIds`."""

    former: uuid.UUID
    present: uuid.UUID
    settles: Settings = ()
