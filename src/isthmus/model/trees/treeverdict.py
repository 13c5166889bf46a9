"""The result of a verification of a distribution tree: plain values, from one record up to the whole."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from isthmus.model.text.plain import PlainValue, computed_field


class TreeFaultKind(enum.StrEnum):
    """How a record of a tree is not once on a cluster, in the order of its producer."""

    DOUBLED = "doubled"
    """It is there more often than it came in on all clusters together."""
    OUT_OF_ORDER = "out_of_order"
    """It stands before one that came in before it on the same cluster."""
    MISSING = "missing"
    """It is not there, though later ones of the same cluster are, or all existing ones have been copied."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeFinding:
    """A record that is wrong on a cluster, which has it at `offset`, or has not. It came in on `origin`, at
    `origin_offset`. `other_offset` is where on the cluster it stands as well, or where that one stands which it should
    come behind.
    """

    kind: TreeFaultKind
    offset: int | None = None
    origin: str | None = None
    origin_offset: int | None = None
    other_offset: int | None = None

    def __str__(self) -> str:
        came_in = f"offset {self.origin_offset} of {self.origin}"
        if self.kind is TreeFaultKind.MISSING:
            return f"{came_in} is missing"
        if self.kind is TreeFaultKind.DOUBLED:
            return f"offset {self.offset} is doubled: it is offset {self.other_offset} again"
        behind = f"it belongs behind offset {self.other_offset}"
        return f"offset {self.offset} ({came_in}) is out of order: {behind}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TreePartitionVerdict:
    """One partition on one cluster. `records` are those that consumers at read_committed see there, `local` those of
    them that came in there.

    `doubled` and `missing` count records, `out_of_order` the places where the order of a cluster's records breaks.
    `waiting` are records that are still to come, `deleted` those of others that the cluster may have deleted already,
    `unjudged` copies of records that no cluster of the tree retains where they came in: whether they came twice cannot
    be told. `findings` are the first of each kind.
    """

    partition: int
    cluster: str
    records: int
    local: int
    doubled: int = 0
    out_of_order: int = 0
    missing: int = 0
    waiting: int = 0
    deleted: int = 0
    unjudged: int = 0
    findings: tuple[TreeFinding, ...] = ()

    @property
    def is_right(self) -> bool:
        return not (self.doubled or self.out_of_order or self.missing)


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeTopicVerdict:
    """One topic on all clusters of the tree."""

    topic: str
    partitions: tuple[TreePartitionVerdict, ...]

    @property
    def is_right(self) -> bool:
        return all(each.is_right for each in self.partitions)

    def count(self, what: str) -> int:
        """The sum over partitions and clusters of one of the counts of `TreePartitionVerdict`."""
        return sum(getattr(each, what) for each in self.partitions)


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeVerdict(PlainValue):
    """The result of the verification of a tree.

    `in_doubt` are leaves that may lack records which come late.
    """

    tree: str
    clusters: tuple[str, ...]
    in_doubt: tuple[str, ...] = ()
    topics: tuple[TreeTopicVerdict, ...]
    elapsed_s: float = 0.0

    @computed_field(before="clusters")
    def equal(self) -> bool:
        """Whether every record is once on every cluster, in the order of its producer, as far as it has come there."""
        return all(each.is_right for each in self.topics)

    def count(self, what: str) -> int:
        """The sum over all topics of one of the counts of `TreePartitionVerdict`."""
        return sum(each.count(what) for each in self.topics)
