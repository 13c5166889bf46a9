"""Synchronous links that a gateway cannot hold acknowledgements for: it refuses writes to their topics."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import Final, NoReturn

from isthmus.errors import ClusterError
from isthmus.gateway.frames.duties import Duty, Waiter
from isthmus.kafka.client import Client
from isthmus.kafka.clock import lasting_s
from isthmus.ledger.documents.gateways import GatewayDocument, GatewayPairDocument
from isthmus.model.gateways.prepared import PreparedCommit
from isthmus.model.gateways.synchrony import FAILED_OVER, OutOfSync, SyncSettings, SyncState
from isthmus.model.links.declaration import Declaration
from isthmus.model.namespace import NamespaceMap, NamespaceNaming
from isthmus.model.naming import SourceTopic, SourceTopicPartition, TargetTopic, TargetTopicPartition

_SETTINGS: Final = SyncSettings()
LOST_S: Final = 60.0
"""How long (s) writes to failed-over namespaces are refused: their clients may be about to move to the follower."""


class UnusableLink:
    """A synchronous link of which only its declaration is known, and why it cannot be used: a `SyncLink`. Requests that
    passed before that was known are never acknowledged.
    """

    def __init__(self, declared: Declaration, why: str, maps: Collection[NamespaceMap] | None = None) -> None:
        self.declared = declared
        self.why = why
        self.settings = _SETTINGS
        self.parted_groups: Collection[str] = ()
        self.is_lost = self.is_current = False
        self.losses = 0
        self.follower = _NoFollower(why)
        self._topics, self._groups = (
            NamespaceNaming(tuple(each for each in (declared.maps if maps is None else maps) if each.kind == kind))
            for kind in ("topic", "group")
        )

    @property
    def name(self) -> str:
        """See `SyncLink`."""
        return self.declared.name

    def document(self, gateway: GatewayDocument) -> GatewayPairDocument:
        """Build the document of a gateway for it."""
        return GatewayPairDocument(
            link=self.name,
            gateway=gateway.gateway,
            said=self.declared.mode_said,
            by=gateway.described,
            state=SyncState.OUT_OF_SYNC,
            since_ms=gateway.since_ms,
            out_of_sync=OutOfSync.CONSISTENT,
            reason=self.why,
            attached_said=self.declared.attached_said,
        )

    @property
    def topics(self) -> Collection[SourceTopic]:
        """See `SyncLink`.

        :raises ClusterError: Always: they are not known.
        """
        raise ClusterError(self.why)

    def target_topic(self, source_topic: SourceTopic) -> TargetTopic | None:
        """See `SyncLink`."""
        found = self._topics.to_target(source_topic)
        return None if found is None else TargetTopic(found)

    def target_group(self, source_group: str) -> str | None:
        """See `SyncLink`."""
        return self._groups.to_target(source_group)

    def copies_open(self, key: SourceTopicPartition) -> bool:
        """See `SyncLink`: nothing is waited for before a commit, as that is refused."""
        return False

    async def note(self, commit: PreparedCommit) -> None:
        """See `SyncLink`.

        :raises ClusterError: Always.
        """
        raise ClusterError(self.why)

    def forget(self, producer_id: int, ends: Mapping[TargetTopicPartition, int]) -> None:
        """See `SyncLink`: nothing was noted."""

    def stand_still(self, late: Mapping[SourceTopicPartition, int]) -> None:
        """See `SyncLink`: it is out of sync already."""

    def duty(self, *, is_transactional: bool) -> Duty:
        """See `SyncLink`."""
        return Duty.REFUSE

    async def compare(self, ends: Mapping[SourceTopicPartition, int]) -> Mapping[SourceTopicPartition, bool | None]:
        """See `SyncLink`: nothing is known."""
        return {}

    async def let_go(self, late: Mapping[SourceTopicPartition, int]) -> None:
        """See `SyncLink`: they must not leave."""
        await asyncio.Event().wait()


class LostNamespaces(UnusableLink):
    """Namespaces of a synchronous link that were failed over while others of it still follow. Writes to them are
    refused until their clients had the time to move to the follower.
    """

    def __init__(self, declared: Declaration, maps: Collection[NamespaceMap]) -> None:
        super().__init__(declared, FAILED_OVER, maps)
        self.is_lost = True
        self._maps = frozenset(maps)
        self._lost_at = lasting_s()

    def is_over(self, known: Declaration | None) -> bool:
        """Whether that time is over, or they follow again."""
        is_back = known is not None and not self._maps.isdisjoint(known.maps)
        return is_back or lasting_s() - self._lost_at >= LOST_S


class UnheardLinks(UnusableLink):
    """All topics of a cluster that may be synchronous by now, as its ledger is not heard and does not have this
    gateway: controllers do not wait for it. Writes are refused, and pending ones answered as late.
    """

    def __init__(self, cluster: str) -> None:
        declared = Declaration(name=f"any from {cluster}", registers=())
        super().__init__(declared, f"the ledger of {cluster} is not heard, and knows nothing of this gateway")
        self.is_lost = True

    def target_topic(self, source_topic: SourceTopic) -> TargetTopic | None:
        """See `SyncLink`: it may be any."""
        return TargetTopic(source_topic)

    def target_group(self, source_group: str) -> str | None:
        """See `SyncLink`: it may be any."""
        return source_group


class _NoFollower:
    """A follower that cannot be asked."""

    losses: Mapping[TargetTopicPartition, tuple[int, int]] = {}

    def __init__(self, why: str) -> None:
        self._why = why

    @property
    def client(self) -> Client:
        """See `Follower`.

        :raises ClusterError: Always.
        """
        self._raise()

    def _raise(self) -> NoReturn:
        raise ClusterError(self._why)

    def end(self, key: TargetTopicPartition) -> int:
        """See `Follower`."""
        return -1

    def still_s(self, key: TargetTopicPartition) -> float:
        """See `Follower`."""
        return 0.0

    def lacks(self, key: TargetTopicPartition, offset: int) -> bool:
        """See `Follower`."""
        return True

    def wait(self, key: TargetTopicPartition, offset: int, wake: Callable[[], None]) -> Waiter | None:
        """See `Follower`: it never comes."""
        return _NoWait()

    async def wait_until_covered(self, ends: Mapping[TargetTopicPartition, int]) -> None:
        """See `Follower`: it never is."""
        await asyncio.Event().wait()


class _NoWait:
    def cancel(self) -> None:
        """See `Waiter`."""
