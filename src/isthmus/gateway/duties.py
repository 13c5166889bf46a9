"""What a gateway owes to synchronous links: which topics are theirs, and what is done with answers at this moment."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final, Protocol

from isthmus.model.prepared import PreparedCommit
from isthmus.model.synchrony import Duty as Duty
from isthmus.model.synchrony import SyncSettings
from isthmus.wire.client import Client
from isthmus.wire.offsets import PartitionKey


class Waiter(Protocol):
    """Who waits for something at the follower."""

    def cancel(self) -> None:
        """Wait no more. Nothing happens if it is over already."""


class Follower(Protocol):
    """What the followers of partitions have, as their leaders at the target tell (`gateway/follower.py`).

    Keys are topics and partitions of the target, offsets are exclusive: what lies below is there.
    """

    @property
    def client(self) -> Client:
        """The client of the target cluster."""

    @property
    def losses(self) -> Mapping[PartitionKey, tuple[int, int]]:
        """Partitions that have lost what they had: where the log ended, and where it ended after that."""

    def end(self, key: PartitionKey) -> int:
        """The high watermark as it was told last, -1 as long as it is unknown. Only what is waited for is asked for."""

    def still_s(self, key: PartitionKey) -> float:
        """For how long (s) that high watermark has not moved while somebody waited."""

    def lacks(self, key: PartitionKey, offset: int) -> bool:
        """Whether the leader has told a moment ago that what stands at this offset is not there yet."""

    def wait(self, key: PartitionKey, offset: int, wake: Callable[[], None]) -> Waiter | None:
        """Call `wake` once the high watermark covers the offset. `None` if it does already: nobody is called then."""

    async def covered(self, ends: Mapping[PartitionKey, int]) -> None:
        """Wait until the high watermarks cover all of these, however long that takes."""


class SyncLink(Protocol):
    """A synchronous link as one gateway sees it."""

    @property
    def name(self) -> str:
        """The name of the link."""

    @property
    def settings(self) -> SyncSettings:
        """How it is synchronous."""

    @property
    def follower(self) -> Follower:
        """What the target has."""

    @property
    def topics(self) -> Collection[str]:
        """The source topics that it copies now."""

    @property
    def is_lost(self) -> bool:
        """Whether somebody goes on at the follower, without what it does not have: nothing that is held can get there
        any more.
        """

    @property
    def losses(self) -> int:
        """How often some of its namespaces were detached, while others of it went on to follow."""

    @property
    def is_current(self) -> bool:
        """Whether it would be known here if the link had been failed over some seconds ago. If not, what comes to the
        follower may be somebody else's, who goes on there.
        """

    @property
    def parted_groups(self) -> Collection[str]:
        """The groups of the source that go on from positions of their own at the target: they are never equal there."""

    def target_topic(self, source_topic: str) -> str | None:
        """The name at the target, `None` if this link does not copy it."""

    def target_group(self, source_group: str) -> str | None:
        """The name of a consumer group at the target, `None` if this link does not carry its positions."""

    def copies_open(self, key: PartitionKey) -> bool:
        """Whether a partition of the source is copied before it is known how its transactions end, as its lane told
        last. Where none has told yet, as the topic is new or the target's ledger was not read, it may be.
        """

    async def note(self, commit: PreparedCommit) -> None:
        """Have the target's ledger know which partitions a transaction has, before its commit is forwarded.

        :raises ClusterError: It was refused, or did not succeed.
        """

    def forget(self, producer_id: int, ends: Mapping[PartitionKey, int]) -> None:
        """The transaction of this producer that has its records before these offsets of the target's partitions, up to
        there, has its end in all of them.
        """

    def stand_still(self, late: Mapping[PartitionKey, int]) -> None:
        """The follower has got nothing of these source topics and partitions for as long as it may lag, and lacks these
        offsets: the link is out of sync. Nothing was answered that it lacks.
        """

    def duty(self, *, is_transactional: bool) -> Duty:
        """What is to be done at this moment. It may change at any time: whatever is held asks again."""

    async def compared(self, ends: Mapping[PartitionKey, int]) -> Mapping[PartitionKey, bool | None]:
        """Whether the follower has before these offsets of the source's topics and partitions what the source has
        there, `None` where nothing there tells; what cannot be read now is left out. With a difference the link is out
        of sync from then on.

        :raises ClusterError: One of the clusters does not answer.
        """

    async def let_go(self, late: Mapping[PartitionKey, int]) -> None:
        """Have it written down that answers leave which the follower may lack: the first offset of each source topic
        and partition; none where it is about positions of groups. It returns when they may leave, at once if all of
        that has been written before; while they must not, it does not return.

        This is called as well when the duty is `HOLD` and the follower has stood still for `lag_max_ms`: the link is
        out of sync from then on.
        """


class Duties(Protocol):
    """The synchronous links of the cluster that a gateway stands before."""

    @property
    def links(self) -> Collection[SyncLink]:
        """All of them. Without any nothing is looked at that passes."""

    def of(self, source_topic: str) -> SyncLink | None:
        """The one that copies this topic; without one everything passes."""


def carriers(duties: Duties, groups: Collection[str]) -> list[SyncLink]:
    """Those that carry positions of one of these groups, and what was lost of them: the positions may be on that."""
    names = {each.name for each in duties.links if any(each.target_group(group) is not None for group in groups)}
    return [each for each in duties.links if each.name in names]


class _NoDuties:
    """A gateway without synchronous links."""

    links: Collection[SyncLink] = ()

    def of(self, source_topic: str) -> SyncLink | None:
        """None."""
        return None


NO_DUTIES: Final[Duties] = _NoDuties()
