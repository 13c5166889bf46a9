"""The state of a pair of namespaces, in the words of KIP-986: derived from states of lanes, and from reports of
gateways.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Final, Protocol

from isthmus.model.gateways.synchrony import SyncState
from isthmus.model.lane import LaneState
from isthmus.model.state import RUNNING, LinkState

FOLLOWING_S: Final = 10.0
"""A follower that lacks no record older than this follows; one that lacks an older one is catching up."""


class PairState(enum.StrEnum):
    """Where a pair of namespaces, or a link as a whole, stands."""

    DISCONNECTED = "DISCONNECTED"
    """Nothing is copied: the link is stopped or paused, or a cluster is away."""
    CATCHING_UP = "CATCHING_UP"
    """Records are copied, but some older than ten seconds are still missing, or some partitions have stopped."""
    FOLLOWING = "FOLLOWING"
    """All records older than ten seconds are there."""
    SYNCING = "SYNCING"
    """Synchronous, but not everything that was acknowledged is known to be at the follower yet."""
    IN_SYNC = "IN_SYNC"
    """Synchronous: all records that gateways acknowledge are at the follower."""
    OUT_OF_SYNC = "OUT_OF_SYNC"
    """A cluster was downgraded since the link was declared, though everything is there; or, of synchronous links,
    answers do not wait for the follower, or writers are refused."""


class PartitionStanding(Protocol):
    """The known state of a partition; `lag_s` is the age of the oldest record to copy, if that is known, and
    `source_age_s` how long ago its source's end was seen (-1 while unknown).
    """

    @property
    def state(self) -> LaneState: ...
    @property
    def source_end(self) -> int: ...
    @property
    def source_age_s(self) -> float: ...
    @property
    def lag_records(self) -> int: ...
    @property
    def lag_s(self) -> float | None: ...


def pair_state(
    link: LinkState,
    partitions: Iterable[PartitionStanding],
    *,
    is_downgraded: bool = False,
    sync: SyncState | None = None,
) -> PairState:
    """Return the state of a pair with these partitions. It does not follow while a cluster keeps less than when the
    link was declared (`is_downgraded`). A synchronous pair has the state that its gateways report.
    """
    if sync is not None:
        return PairState.OUT_OF_SYNC if is_downgraded else PairState(sync.value)
    if link not in RUNNING:
        return PairState.DISCONNECTED
    found = list(partitions)
    if found and all(each.state is LaneState.PAUSED for each in found):
        return PairState.DISCONNECTED
    if not all(map(_follows, found)):
        return PairState.CATCHING_UP
    return PairState.OUT_OF_SYNC if is_downgraded else PairState.FOLLOWING


def _follows(partition: PartitionStanding) -> bool:
    if partition.state is LaneState.STARTING and partition.source_end == 0:
        # A new topic cannot lack any record.
        return partition.source_age_s <= FOLLOWING_S
    if partition.state is not LaneState.ACTIVE or partition.lag_records < 0:
        return False
    return partition.lag_records == 0 or (partition.lag_s is not None and partition.lag_s <= FOLLOWING_S)
