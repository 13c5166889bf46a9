"""The settings for tools of MirrorMaker 2, and the names of the topics that a link writes for them.

Names are those of its DefaultReplicationPolicy, with the separator of the link's naming where that is `mm2`, else with
a dot (KIP-949); sources: DefaultReplicationPolicy.java and ReplicationPolicy.java of Kafka's connect/mirror-client.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

from isthmus.model.naming import MirrorMakerNaming, Naming

HEARTBEATS: Final = "heartbeats"
"""The topic of heartbeats, under the same name in every cluster."""
_CHECKPOINTS: Final = "checkpoints"
_INTERNAL: Final = "internal"
_SYNCS: Final = "mm2-offset-syncs"


class SyncsPlace(enum.StrEnum):
    """At which cluster pairs of offsets are written, if at all (KIP-716)."""

    OFF = "off"
    SOURCE = "source"
    TARGET = "target"


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorMakerSettings:
    """The records that a link writes in the formats of MirrorMaker 2; none by default. The numbers are its own
    defaults.

    A lane's offsets are written again when it is more than `offset_lag_max` records beyond those written last.
    Heartbeats of the source are mirrored where `heartbeats` are written, unless `heartbeats_replication` is off
    (KAFKA-17534).
    """

    offset_syncs: SyncsPlace = SyncsPlace.OFF
    offset_lag_max: int = 100
    checkpoints: bool = False
    checkpoints_interval_s: float = 60.0
    heartbeats: bool = False
    heartbeats_interval_s: float = 1.0
    heartbeats_replication: bool = True

    @property
    def is_on(self) -> bool:
        """Whether anything is written."""
        return self.checkpoints or self.heartbeats or self.offset_syncs is not SyncsPlace.OFF

    @property
    def mirrors_heartbeats(self) -> bool:
        """Whether heartbeats of the source are mirrored, whatever topics are selected."""
        return self.heartbeats and self.heartbeats_replication


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorMakerNames:
    """The names of MirrorMaker 2's topics between two clusters."""

    source_alias: str
    target_alias: str
    separator: str = "."

    @property
    def checkpoints(self) -> str:
        """The topic of checkpoints, at the target."""
        return self.separator.join((self.source_alias, _CHECKPOINTS, _INTERNAL))

    @property
    def mirrored_heartbeats(self) -> str:
        """The name of the source's heartbeats at the target."""
        return self.separator.join((self.source_alias, HEARTBEATS))

    def offset_syncs(self, place: SyncsPlace) -> str:
        """Return the topic of pairs of offsets at a place: its name contains the cluster at the other end."""
        alias = self.target_alias if place is SyncsPlace.SOURCE else self.source_alias
        return self.separator.join((_SYNCS, alias, _INTERNAL))

    def is_heartbeats(self, name: str) -> bool:
        """Return whether a topic is one of heartbeats, of any cluster: only that name is behind the
        aliases it came by.
        """
        *aliases, last = name.split(self.separator)
        return last == HEARTBEATS and all(aliases)

    def is_internal(self, name: str) -> bool:
        """Return whether a topic is internal to MirrorMaker 2 at one cluster, and never mirrored (KIP-1074)."""
        end = f"{self.separator}{_INTERNAL}"
        return name.endswith(f"{self.separator}{_CHECKPOINTS}{end}") or (name.startswith("mm2") and name.endswith(end))

    @property
    def naming(self) -> MirrorMakerNaming:
        """The naming of heartbeat topics at the target."""
        return MirrorMakerNaming(
            source_alias=self.source_alias, target_alias=self.target_alias, separator=self.separator
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorMakerTopics:
    """The topics that a link for tools of MirrorMaker 2 treats as MirrorMaker 2 does, whatever topics it selects.

    Internal topics are never mirrored. With `heartbeats` those of the source are, under its names. With `keeps_apart`
    only those that the link selects, under the same names: at the target it writes its own.
    """

    names: MirrorMakerNames
    heartbeats: bool = False
    keeps_apart: bool = False

    def is_carried(self, name: str) -> bool:
        """Return whether a topic of the source is mirrored for its heartbeats, unless it would go in a circle."""
        return self.heartbeats and self.names.is_heartbeats(name)

    def naming(self, naming: Naming) -> Naming:
        """Return the naming of a link, with heartbeats under their own names."""
        is_renaming = self.heartbeats or self.keeps_apart
        return HeartbeatNaming(names=self.names, others=naming) if is_renaming else naming


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatNaming:
    """The naming of heartbeat topics: the source's alias before their name, as MirrorMaker 2 names them even if all
    others keep their names (IdentityReplicationPolicy); `others` have their own naming.
    """

    names: MirrorMakerNames
    others: Naming

    def to_target(self, name: str) -> str | None:
        naming: Naming = self.names.naming if self.names.is_heartbeats(name) else self.others
        return naming.to_target(name)

    def to_source(self, name: str) -> str | None:
        if not self.names.is_heartbeats(name):
            return self.others.to_source(name)
        return self.names.naming.to_source(name)
