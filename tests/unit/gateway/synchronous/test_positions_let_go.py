"""Positions that no follower is waited for are answered once it is written down that the link is out of sync."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest
from kafka.protocol.consumer import OffsetCommitResponse

from isthmus.errors import Unreachable
from isthmus.gateway.frames.committing import PositionsOwed, positions_told
from isthmus.gateway.frames.duties import Duty
from isthmus.gateway.synchronous import positions
from isthmus.gateway.synchronous.holding import HeldAnswer
from isthmus.gateway.synchronous.keeping import Keeper
from isthmus.gateway.synchronous.unusable import LostNamespaces
from isthmus.kafka import codes
from isthmus.kafka.log.listoffsets import PartitionKey
from isthmus.kafka.outcomes import Outcomes
from isthmus.model.gateways.synchrony import SyncSettings
from isthmus.model.links.declaration import Declaration
from isthmus.model.namespace import NamespaceKind, NamespaceMap

VERSION = 8
KEY = ("orders", 0)


class Away:
    """A cluster that nobody reaches."""

    def __getattr__(self, name: str) -> Any:
        raise Unreachable("it is away", cluster="east")


@dataclass(slots=True, eq=False)
class Link:
    """A link that is out of sync, which the test writes down."""

    written: asyncio.Event = field(default_factory=asyncio.Event)
    asked: list[Mapping[PartitionKey, int]] = field(default_factory=list)
    settings: SyncSettings = field(default_factory=SyncSettings)
    name: str = "orders"
    is_lost: bool = False
    losses: int = 0
    now: Duty = Duty.LET_GO
    has_topics: bool = True
    has_groups: bool = True
    follower: Any = field(default_factory=partial(SimpleNamespace, client=None))

    def target_topic(self, source_topic: str) -> str | None:
        """The same name."""
        return source_topic if self.has_topics else None

    def target_group(self, source_group: str) -> str | None:
        """The same name."""
        return source_group if self.has_groups else None

    def duty(self, *, is_transactional: bool) -> Duty:
        """Nobody waits for the follower, unless the test says so."""
        del is_transactional
        return self.now

    async def let_go(self, late: Mapping[PartitionKey, int]) -> None:
        """Wait until it is written down."""
        self.asked.append(late)
        await self.written.wait()


@dataclass(slots=True, eq=False)
class Links:
    """The one link."""

    links: tuple[Link | LostNamespaces, ...]


@dataclass(slots=True, eq=False)
class Owner:
    """Whose answer it is, and which broker took the commit."""

    node: int = 1
    released: asyncio.Event = field(default_factory=asyncio.Event)

    def release(self) -> None:
        """It may leave."""
        self.released.set()


def answer() -> HeldAnswer:
    """The answer to a commit of one position."""
    told = OffsetCommitResponse.OffsetCommitResponseTopic
    part = told.OffsetCommitResponsePartition(partition_index=KEY[1], error_code=0)
    response = OffsetCommitResponse(throttle_time_ms=0, topics=[told(name=KEY[0], partitions=[part])])
    payload = bytes(5) + response.encode(version=VERSION)
    frame = len(payload).to_bytes(4, "big") + payload
    return HeldAnswer(bytearray(frame), VERSION, PositionsOwed("group", frozenset([KEY])))


def test_positions_wait_for_the_ledger() -> None:
    """Until then everybody who looks is told that the link is in sync, and that the follower has them."""

    async def story() -> None:
        link, owner, held = Link(), Owner(), answer()
        keeper = Keeper(cast(Any, Links((link,))), cast(Any, Away()))
        keeper.keep(held, cast(Any, owner))
        await asyncio.sleep(0.05)
        early = held.is_ready
        link.written.set()
        async with asyncio.timeout(30):
            await owner.released.wait()
        assert (early, held.is_ready) == (False, True)
        assert link.asked == [{}]
        await keeper.aclose()

    asyncio.run(story())


@pytest.mark.parametrize("kind", ["topic", "group"])
def test_positions_of_what_was_failed_over_are_not_acknowledged(kind: NamespaceKind) -> None:
    """Of a link that goes on with the groups, or with the topics: nobody carries them any more. Once clients had the
    time to go they are nobody's.
    """
    known = Declaration(name="orders", registers=())
    lost = LostNamespaces(known, [NamespaceMap.parse({"topic": "orders", "group": "group"}[kind], kind=kind)])
    held = Link(now=Duty.HOLD, has_topics=kind != "topic", has_groups=kind != "group")

    async def told(*links: Link | LostNamespaces) -> int:
        given, owner = answer(), Owner()
        keeper = Keeper(cast(Any, Links(links)), cast(Any, Away()))
        keeper.keep(given, cast(Any, owner))
        async with asyncio.timeout(30):
            while not given.is_ready:
                await asyncio.sleep(0.01)
        await keeper.aclose()
        (one,) = positions_told(memoryview(given.frame), VERSION)
        return one.code

    assert asyncio.run(told(lost, held)) == codes.COORDINATOR_LOAD_IN_PROGRESS
    assert asyncio.run(told(held)) == codes.NONE


def test_a_commit_is_asked_of_the_broker_that_took_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """It came through a connection to that one."""
    asked = list[int | None]()

    async def committed(_: Any, groups: Collection[str], *, node: int | None = None, **__: Any) -> Any:
        asked.append(node)
        return Outcomes({group: {} for group in groups}, {})

    async def story() -> None:
        monkeypatch.setattr(positions, "committed_offsets", committed)
        owner, held = Owner(node=7), answer()
        keeper = Keeper(cast(Any, Links((Link(now=Duty.HOLD),))), cast(Any, Away()))
        keeper.keep(held, cast(Any, owner))
        async with asyncio.timeout(30):
            while not asked:
                await asyncio.sleep(0.01)
        await keeper.aclose()
        assert asked[0] == 7

    asyncio.run(story())


def test_a_broker_that_does_not_answer_delays_no_commits_that_others_took(monkeypatch: pytest.MonkeyPatch) -> None:
    """It stands still behind what it has answered: what it took is late, and nothing else."""
    asked = set[int | None]()

    async def committed(_: Any, groups: Collection[str], *, node: int | None = None, **__: Any) -> Any:
        asked.add(node)
        if node == 1:
            await asyncio.Event().wait()
        return Outcomes({group: {} for group in groups}, {})

    async def story() -> None:
        monkeypatch.setattr(positions, "committed_offsets", committed)
        keeper = Keeper(cast(Any, Links((Link(now=Duty.HOLD),))), cast(Any, Away()))
        still, answered = Owner(node=1), Owner(node=2)
        keeper.keep(answer(), cast(Any, still))
        async with asyncio.timeout(30):
            while 1 not in asked:
                await asyncio.sleep(0.01)
            keeper.keep(held := answer(), cast(Any, answered))
            await answered.released.wait()
        assert {each.code for each in positions_told(memoryview(held.frame), held.version)} == {codes.NONE}
        await keeper.aclose()

    asyncio.run(story())
