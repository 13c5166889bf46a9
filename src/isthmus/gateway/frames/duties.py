"""The duties of a gateway to synchronous links: which topics they copy, and whether answers are held now."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final, Protocol

from isthmus.kafka.client import Client
from isthmus.model.gateways.prepared import PreparedCommit
from isthmus.model.gateways.synchrony import Duty as Duty
from isthmus.model.gateways.synchrony import SyncSettings
from isthmus.model.naming import SourceTopic, SourceTopicPartition, TargetTopic, TargetTopicPartition


class Waiter(Protocol):
    """A wait for the follower."""

    def cancel(self) -> None:
        """Cancel the wait. Nothing happens if it is over already."""


class Follower(Protocol):
    """The high watermarks of partitions at the target, as leaders report them (`gateway/synchronous/follower.py`).

    Keys are topics and partitions of the target, offsets are exclusive: records below them are there.
    """

    @property
    def client(self) -> Client:
        """The client of the target cluster."""

    @property
    def losses(self) -> Mapping[TargetTopicPartition, tuple[int, int]]:
        """Partitions that have lost data: where the log ended before, and where it ended after that."""

    def end(self, key: TargetTopicPartition) -> int:
        """Return the last known high watermark, -1 if unknown. Only partitions that are waited for are asked for."""

    def still_s(self, key: TargetTopicPartition) -> float:
        """For how long (s) that high watermark has not moved while it was waited for."""

    def lacks(self, key: TargetTopicPartition, offset: int) -> bool:
        """Whether the leader reported a moment ago that it lacks the record at this offset."""

    def wait(self, key: TargetTopicPartition, offset: int, wake: Callable[[], None]) -> Waiter | None:
        """Call `wake` once the high watermark covers the offset. `None`, and no call, if it does already."""

    async def wait_until_covered(self, ends: Mapping[TargetTopicPartition, int]) -> None:
        """Wait until the high watermarks cover all of these, however long that takes."""


class SyncLink(Protocol):
    """A synchronous link as one gateway sees it."""

    @property
    def name(self) -> str:
        """The name of the link."""

    @property
    def settings(self) -> SyncSettings:
        """The settings of its synchronous mode."""

    @property
    def follower(self) -> Follower:
        """The high watermarks of the target."""

    @property
    def topics(self) -> Collection[SourceTopic]:
        """The source topics that it copies now."""

    @property
    def is_lost(self) -> bool:
        """Whether the link was failed over: other clients write at the follower, which gets no held record any more."""

    @property
    def losses(self) -> int:
        """How often some of its namespaces were detached, while others of it went on to follow."""

    @property
    def is_current(self) -> bool:
        """Whether it would be known here if the link had been failed over some seconds ago. If not, other clients may
        have written what comes to the follower.
        """

    @property
    def parted_groups(self) -> Collection[str]:
        """The groups of the source that go on from positions of their own at the target: they are never equal there."""

    def target_topic(self, source_topic: SourceTopic) -> TargetTopic | None:
        """Map a topic to its name at the target, `None` if this link does not copy it."""

    def target_group(self, source_group: str) -> str | None:
        """Map a consumer group to its name at the target, `None` if this link does not carry its positions."""

    def copies_open(self, key: SourceTopicPartition) -> bool:
        """Whether a partition of the source is copied before it is known how its transactions end, by the last report
        of its lane. Without a report, as the topic is new or the target's ledger was not read, it may be.
        """

    async def note(self, commit: PreparedCommit) -> None:
        """Write to the target's ledger which partitions a transaction has, before its commit is forwarded.

        :raises ClusterError: The write was rejected, or did not succeed.
        """

    def forget(self, producer_id: int, ends: Mapping[TargetTopicPartition, int]) -> None:
        """Delete the note of a transaction of this producer whose records are below these offsets of the target's
        partitions: it has its end in all of them.
        """

    def stand_still(self, late: Mapping[SourceTopicPartition, int]) -> None:
        """Set the link out of sync: the follower got nothing of these source topics and partitions for as long as it
        may lag, and lacks these offsets. No answer acknowledged what it lacks.
        """

    def duty(self, *, is_transactional: bool) -> Duty:
        """Return what to do with an answer now. It may change at any time: held answers ask again."""

    async def compare(self, ends: Mapping[SourceTopicPartition, int]) -> Mapping[SourceTopicPartition, bool | None]:
        """Compare the follower with the source before these offsets of the source's topics and partitions: whether they
        are alike, `None` without a record to compare; partitions that cannot be read now are left out. With a
        difference the link is out of sync from then on.

        :raises ClusterError: One of the clusters does not answer.
        """

    async def let_go(self, late: Mapping[SourceTopicPartition, int]) -> None:
        """Write to the ledger that answers leave which the follower may lack: the first offset of each source topic and
        partition; none for positions of groups. It returns when they may leave, at once if all of that was written
        before; while they must not, it does not return.

        It is called as well when the duty is `HOLD` and the follower has stood still for `lag_max_ms`: the link is out
        of sync from then on.
        """


class Duties(Protocol):
    """The synchronous links of the cluster that a gateway stands before."""

    @property
    def links(self) -> Collection[SyncLink]:
        """All links. Without any, requests pass without being examined."""

    def of(self, source_topic: str) -> SyncLink | None:
        """Find the link that copies this topic; without one its requests pass."""


def carriers(duties: Duties, groups: Collection[str]) -> list[SyncLink]:
    """Find the links that carry positions of one of these groups, and their lost parts, which may have the topics."""
    names = {each.name for each in duties.links if any(each.target_group(group) is not None for group in groups)}
    return [each for each in duties.links if each.name in names]


class _NoDuties:
    """A gateway without synchronous links."""

    links: Collection[SyncLink] = ()

    def of(self, source_topic: str) -> SyncLink | None:
        """None."""
        return None


NO_DUTIES: Final[Duties] = _NoDuties()
