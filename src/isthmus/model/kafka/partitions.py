"""Partitions as their cluster reports them: the leader, the followers, the begin and the end of the log."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Annotated, Final, NamedTuple

from isthmus.model.text.plain import computed_field, null_if_negative

NO_LEADER: Final = -1


class Condition(enum.StrEnum):
    """The possible faults of a partition, the worst first."""

    OFFLINE = "offline"
    """It has no leader: it can be neither written nor read."""
    UNDER_MIN_ISR = "under-min-isr"
    """Fewer replicas are in sync than `min.insync.replicas` asks for."""
    UNDER_REPLICATED = "under-replicated"
    """Not all replicas are in sync."""
    TOO_FEW_REPLICAS = "fewer-replicas-than-min-isr"
    """`min.insync.replicas` asks for more replicas than there are."""
    NOT_PREFERRED = "leader-not-preferred"
    """Another replica than the first one leads."""


def _as_optional(node_id: int) -> int | None:
    return node_id


def _by_replica(behind: Iterable[tuple[int, int]]) -> dict[str, int]:
    return {str(replica): records for replica, records in behind}


class PartitionState(NamedTuple):
    """A partition of a cluster; unknown values are null.

    `leader` is -1 if there is none, and `leader_epoch` if the broker does not report it.

    Offsets are `[log_start, high_watermark)`; those before `stable_end` are in no open transaction. They are `None` if
    no leader reported them, and `min_insync_replicas` and `is_unclean_allowed` if we may not see the topic's
    configuration. `behind` gives for followers how many records they lack, as far as they were asked and answered.
    Brokers in `adding` fetch the partition, to replace those in `removing`.
    """

    topic: str
    partition: int
    leader: Annotated[int, null_if_negative]
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    min_insync_replicas: int | None = None
    log_start: int | None = None
    stable_end: Annotated[int | None, "last_stable_offset"] = None
    high_watermark: int | None = None
    is_unclean_allowed: Annotated[bool | None, "unclean_leader_election"] = None
    behind: Annotated[tuple[tuple[int, int], ...], _by_replica] = ()
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @computed_field(before="replicas")
    def preferred(self) -> Annotated[int, "preferred_leader", _as_optional]:
        """The replica that should lead: the first of the assignment."""
        return self.replicas[0] if self.replicas else NO_LEADER

    @property
    def unstable_records(self) -> int:
        """The number of offsets that an open transaction holds back from consumers at read_committed."""
        if self.stable_end is None or self.high_watermark is None:
            return 0
        return max(self.high_watermark - self.stable_end, 0)

    @property
    def out_of_sync(self) -> tuple[int, ...]:
        """The replicas that are not in sync."""
        return tuple(replica for replica in self.replicas if replica not in self.isr)

    @computed_field
    def conditions(self) -> tuple[Condition, ...]:
        """All conditions of the partition, the worst first; an offline partition has no other."""
        if self.leader == NO_LEADER:
            return (Condition.OFFLINE,)
        found = []
        asked = self.min_insync_replicas or 1
        if len(self.isr) < min(asked, len(self.replicas)):
            found.append(Condition.UNDER_MIN_ISR)
        if self.out_of_sync:
            found.append(Condition.UNDER_REPLICATED)
        if asked > len(self.replicas):
            found.append(Condition.TOO_FEW_REPLICAS)
        if self.leader != self.preferred:
            found.append(Condition.NOT_PREFERRED)
        return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLoad:
    """The load of one broker. `displaced` partitions prefer it as their leader and have another one."""

    node_id: int
    replicas: int
    leaders: int
    preferred: int
    displaced: int


def broker_loads(partitions: Iterable[PartitionState], brokers: Collection[int]) -> tuple[BrokerLoad, ...]:
    """Return the load of every broker named, and of every other one that has a replica; by broker."""
    replicas: Counter[int] = Counter()
    leaders: Counter[int] = Counter()
    preferred: Counter[int] = Counter()
    displaced: Counter[int] = Counter()
    for partition in partitions:
        replicas.update(partition.replicas)
        leaders[partition.leader] += 1
        preferred[partition.preferred] += 1
        displaced[partition.preferred] += partition.leader != partition.preferred
    return tuple(
        BrokerLoad(
            node_id=node,
            replicas=replicas[node],
            leaders=leaders[node],
            preferred=preferred[node],
            displaced=displaced[node],
        )
        for node in sorted({*brokers, *replicas})
    )
