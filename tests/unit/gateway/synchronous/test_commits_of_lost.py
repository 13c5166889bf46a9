"""Commits of transactions whose positions a link carries no more, as some of its namespaces were failed over."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import pytest

from isthmus.errors import Unreachable
from isthmus.gateway.frames.committing import CommitAsked, CommitOwed, GroupSeen, code_of_commit, commit_refused
from isthmus.gateway.frames.duties import Duty
from isthmus.gateway.synchronous import commits, positions
from isthmus.gateway.synchronous.commits import CommitLooks
from isthmus.gateway.synchronous.holding import HeldAnswer
from isthmus.gateway.synchronous.keeping import Keeper
from isthmus.gateway.synchronous.unusable import LostNamespaces
from isthmus.kafka import codes
from isthmus.kafka.groups.groups import OFFSETS_TOPIC, Positions
from isthmus.kafka.log.listoffsets import PartitionKey
from isthmus.kafka.outcomes import Outcomes
from isthmus.kafka.transactions.producers import ActiveProducer
from isthmus.model.cluster import Cluster
from isthmus.model.links.declaration import Declaration
from isthmus.model.namespace import NamespaceMap

GROUP, TOPIC = "group", "orders"


class Source:
    """A cluster whose coordinator has a transaction that commits positions of one group, and nothing else."""

    cluster = Cluster(alias="east", bootstrap_servers=("127.0.0.1:1",))

    def __init__(self, state: str = "Ongoing") -> None:
        self._state = state

    async def coordinator(self, *_: Any) -> Any:
        """That transaction."""
        topics = [SimpleNamespace(topic=OFFSETS_TOPIC, partitions=[0])]
        state = SimpleNamespace(
            error_code=codes.NONE,
            producer_id=1,
            producer_epoch=0,
            transaction_start_time_ms=1,
            transaction_state=self._state,
            topics=topics,
        )
        return SimpleNamespace(transaction_states=[state])

    async def metadata(self, _: Any) -> Any:
        """One partition of positions."""
        part = SimpleNamespace(partition=0, leader=1)
        return SimpleNamespace(topics={OFFSETS_TOPIC: SimpleNamespace(partitions=[part])})


@dataclass(slots=True, eq=False)
class Link:
    """One that carries the group on with other topics."""

    name: str = "orders"
    is_lost: bool = False
    losses: int = 0

    def target_group(self, source_group: str) -> str:
        """The same name."""
        return source_group

    def duty(self, *, is_transactional: bool) -> Duty:
        """It is in sync."""
        del is_transactional
        return Duty.HOLD


class Links:
    """A link, and what it has lost."""

    def __init__(self, *links: Any) -> None:
        self.links = links

    def of(self, source_topic: str) -> None:
        """The transaction has no records."""


class Owner:
    """Whose commit it is."""

    def __init__(self) -> None:
        self.told = asyncio.Event()
        self.is_refused = False

    def refuse(self, *_: Any) -> None:
        """It ends."""
        self.is_refused = True
        self.told.set()

    def release(self) -> None:
        """It may leave."""
        self.told.set()


@pytest.mark.parametrize("name", ["orders", "others"])
def test_a_commit_of_positions_that_nobody_may_carry_is_refused(name: str) -> None:
    """On which topics they are is not told: where some of the same link are lost they may be on these."""
    lost = LostNamespaces(Declaration(name=name, registers=()), [NamespaceMap.parse(TOPIC)])
    looks = CommitLooks(cast("Any", Links(lost, Link())), cast("Any", Source()))
    looks.note(GroupSeen("id", GROUP))

    found = asyncio.run(looks.look(CommitAsked("id", 4, 1, time.monotonic())))

    if name == "orders":
        assert isinstance(found, bytes)
        assert code_of_commit(memoryview(found), 4) == codes.TRANSACTION_ABORTABLE
    else:
        assert isinstance(found, CommitOwed)
        assert found.groups == {GROUP}


def test_a_commit_that_was_forwarded_before_is_not_acknowledged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what the link carries still the follower has all positions. Its client asks again, at the follower by then."""

    async def committed(*_: Any, **__: Any) -> Outcomes[str, Positions[str]]:
        return Outcomes({GROUP: {}}, {})

    monkeypatch.setattr(positions, "committed_offsets", committed)
    lost = LostNamespaces(Declaration(name="orders", registers=()), [NamespaceMap.parse(TOPIC)])
    asked, owner = CommitAsked("id", 4, 1, time.monotonic()), Owner()
    owed = CommitOwed(asked, groups=frozenset([GROUP]))

    async def story() -> None:
        keeper = Keeper(cast("Any", Links(lost, Link())), cast("Any", Source()))
        keeper.keep(HeldAnswer(bytearray(commit_refused(asked, codes.NONE)), 4, owed), cast("Any", owner))
        async with asyncio.timeout(30):
            await owner.told.wait()
        await keeper.aclose()

    asyncio.run(story())
    assert owner.is_refused


@pytest.mark.parametrize("is_told", [True, False])
def test_a_commit_whose_producer_nobody_tells_of_may_be_in_what_is_lost(
    is_told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only leaders that tell all who have written say that it is not."""

    async def active(_: Any, leaders: Any) -> Outcomes[PartitionKey, tuple[ActiveProducer, ...]]:
        silent = {} if is_told else dict.fromkeys(leaders, Unreachable("nobody tells", cluster="east"))
        return Outcomes(dict.fromkeys(leaders.keys() - silent.keys(), (ActiveProducer(9, 0, 0, -1),)), silent)

    monkeypatch.setattr(commits, "active_producers", active)
    lost = LostNamespaces(Declaration(name="orders", registers=()), [NamespaceMap.parse(TOPIC)])
    looks = CommitLooks(cast("Any", Links(lost, Link())), cast("Any", Source(state="CompleteCommit")))

    found = asyncio.run(looks.look(CommitAsked("id", 4, 1, time.monotonic(), producer_id=1)))

    assert isinstance(found, CommitOwed)
    assert (found.is_all, list(found.untouched)) == (True, [lost] * is_told)
