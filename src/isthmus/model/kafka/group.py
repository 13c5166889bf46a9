"""Consumer groups: their description by the cluster, and the positions they committed."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Final, NamedTuple

from isthmus.model.text.plain import Hidden

NO_OFFSET: Final = -1
NO_LEADER_EPOCH: Final = -1
_HASH_BITS: Final = 32
_HASH_MULTIPLIER: Final = 31
_INT_MIN: Final = -(1 << (_HASH_BITS - 1))


class GroupType(enum.StrEnum):
    """The protocol a group's members speak. Only the first two keep their position in committed offsets alone."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    """KIP-848: the coordinator assigns partitions."""
    SHARE = "share"
    """KIP-932: the position is kept record by record, elsewhere."""
    STREAMS = "streams"
    """KIP-1071."""
    UNKNOWN = "unknown"


class GroupState(enum.StrEnum):
    """Kafka's names for where a group stands, over all types."""

    EMPTY = "Empty"
    """No members; committed offsets, if it has any, stay."""
    STABLE = "Stable"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    NOT_READY = "NotReady"
    """A streams group that lacks a topic; it has members."""
    DEAD = "Dead"
    """There is no such group, or it is being removed."""
    UNKNOWN = "Unknown"

    @classmethod
    def of(cls, name: str) -> GroupState:
        """Return the state of that name, `UNKNOWN` for an unknown one."""
        return next((state for state in cls if state.value == name), cls.UNKNOWN)

    @property
    def is_vacant(self) -> bool:
        """Whether the group certainly has no members."""
        return self in (GroupState.EMPTY, GroupState.DEAD)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupListing:
    """One line of a list of groups. `protocol_type` is "consumer", "connect", ... or "" if no member ever joined."""

    group: str
    type: GroupType
    state: GroupState
    protocol_type: str


class Assigned(NamedTuple):
    """A partition that a member reads."""

    topic: str
    partition: int


def _name_assigned(partitions: Iterable[tuple[str, int]]) -> list[Assigned]:
    return [Assigned(*each) for each in partitions]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember:
    """A member of a group.

    `assignment` are its partitions, sorted; none if the group's protocol is unknown here.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rack: str | None = None
    assignment: Annotated[tuple[tuple[str, int], ...], _name_assigned] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    """One group as its coordinator sees it. `protocol` is the assignor in use, "" while there is none.

    `coordinator` is a node id. `offsets_partition` is the partition of `__consumer_offsets` whose leader the
    coordinator is, `None` if the number of its partitions is unknown.
    """

    group: Hidden[str]
    type: GroupType
    state: GroupState
    protocol_type: str
    protocol: str
    members: tuple[GroupMember, ...]
    coordinator: int
    offsets_partition: int | None = None


class Committed(NamedTuple):
    """A committed position: the next offset to read, and the metadata of its consumer."""

    offset: Annotated[int, "position"]
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str = ""


def offsets_partition(group: str, partition_count: int) -> int:
    """Return the partition of `__consumer_offsets` that holds a group: Java's `String.hashCode`,
    made positive, modulo.
    """
    code = 0
    encoded = group.encode("utf-16-be", "surrogatepass")
    for index in range(0, len(encoded), 2):
        code = (code * _HASH_MULTIPLIER + int.from_bytes(encoded[index : index + 2])) & 0xFFFFFFFF
    signed = code - (1 << _HASH_BITS) if code >> (_HASH_BITS - 1) else code
    # Java has no positive number for its smallest one; Kafka uses 0 then.
    return 0 if signed == _INT_MIN else abs(signed) % partition_count
