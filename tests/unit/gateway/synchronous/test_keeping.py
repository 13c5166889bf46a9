"""What answers wait for: a follower that is that far, and has there what the source has; or word that it lags."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import cast

import pytest

from isthmus.gateway.frames.acknowledging import read_acknowledgements
from isthmus.gateway.frames.committing import CommitAsked, CommitOwed, Span, commit_refused
from isthmus.gateway.frames.duties import Duties, Duty
from isthmus.gateway.frames.walking import BatchWritten, ProduceWalk
from isthmus.gateway.synchronous.holding import HeldAnswer
from isthmus.gateway.synchronous.keeping import Keeper
from isthmus.kafka import codes
from isthmus.kafka.client import Client
from isthmus.kafka.log.listoffsets import PartitionKey
from isthmus.model.gateways.figures import Refusal
from isthmus.model.gateways.synchrony import SyncSettings
from isthmus.model.naming import SourceTopic
from tests.unit.gateway.parts import Parts, answered, batch

KEY = SourceTopic("orders"), 0
PARTS: Parts = [(BatchWritten(*KEY, 3, is_transactional=False), batch(3))]
BASE = 100


@dataclass(slots=True, eq=False)
class Link:
    """A link and its follower, as the test says."""

    name: str = "orders"
    settings: SyncSettings = field(default_factory=lambda: SyncSettings(lag_max_ms=60_000))
    now: Duty = Duty.HOLD
    is_there: bool = True
    is_lost: bool = False
    is_current: bool = True
    losses: int = 0
    lacked: bool = False
    alike: dict[PartitionKey, bool | None] = field(default_factory=dict)
    asked: list[Mapping[PartitionKey, int]] = field(default_factory=list)
    wakes: list[Callable[[], None]] = field(default_factory=list)
    written: asyncio.Event = field(default_factory=asyncio.Event)
    late: dict[PartitionKey, int] = field(default_factory=dict)
    ends: list[int] = field(default_factory=lambda: [BASE - 7])

    @property
    def follower(self) -> Link:
        """Itself."""
        return self

    def target_topic(self, source_topic: str) -> str:
        """The same name."""
        return source_topic

    def duty(self, *, is_transactional: bool) -> Duty:
        """As the test says."""
        return self.now

    def end(self, key: PartitionKey) -> int:
        """As the test says, the last one for good."""
        return self.ends.pop(0) if len(self.ends) > 1 else self.ends[0]

    def still_s(self, key: PartitionKey) -> float:
        """It moves."""
        return 0.0

    def lacks(self, key: PartitionKey, offset: int) -> bool:
        """As the test says."""
        assert key == KEY
        assert offset in (BASE, BASE + 2)
        return self.lacked

    def wait(self, key: PartitionKey, offset: int, wake: Callable[[], None]) -> Link | None:
        """As the test says."""
        assert (key, offset) == (KEY, BASE + 3)
        if self.is_there:
            return None
        self.wakes.append(wake)
        return self

    def cancel(self) -> None:
        """Nobody waits."""

    async def wait_until_covered(self, ends: Mapping[PartitionKey, int]) -> None:
        """It is."""

    def forget(self, producer_id: int, ends: Mapping[PartitionKey, int]) -> None:
        """Nothing was noted."""

    async def compare(self, ends: Mapping[PartitionKey, int]) -> Mapping[PartitionKey, bool | None]:
        """As the test says."""
        self.asked.append(ends)
        return dict(self.alike)

    async def let_go(self, late: Mapping[PartitionKey, int]) -> None:
        """Once the test says so."""
        self.late.update(late)
        await self.written.wait()


@dataclass(slots=True, eq=False)
class Owner:
    """Who would be told."""

    node: int = 1

    def release(self) -> None:
        """Some may leave."""

    def refuse(self, refusal: Refusal, why: str) -> None:
        """Nobody is."""
        raise AssertionError((refusal, why))


@dataclass(slots=True)
class Owing:
    """Duties of one link."""

    links: list[Link]

    def of(self, source_topic: str) -> Link:
        """The first one."""
        return self.links[0]


async def kept(link: Link, producer_id: int = -1, keeper: Keeper | None = None) -> tuple[Keeper, HeldAnswer]:
    """An acknowledgement that came a moment ago, to a keeper that may hold others."""
    keeper = keeper or Keeper(cast(Duties, Owing([link])), cast(Client, None))
    walk = ProduceWalk(1, flexible=False, begun_at=time.monotonic())
    walk.written, walk.timeout_ms = [each._replace(producer_id=producer_id) for each, _ in PARTS], 60_000
    answer = HeldAnswer(bytearray(answered(PARTS, [0], 9, base=BASE)), 9, walk)
    keeper.keep(answer, Owner())
    return keeper, answer


async def leaves(answer: HeldAnswer) -> None:
    """Wait until it may leave."""
    async with asyncio.timeout(10):
        while not answer.is_ready:
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("is_there", [True, False])
def test_what_may_have_been_there_before_is_compared(is_there: bool) -> None:
    """A follower that was that far already has the source's records there, or the answer stays; what cannot be told is
    asked again.
    """

    async def story() -> None:
        link = Link(is_there=is_there)
        keeper, answer = await kept(link)
        for wake in link.wakes:
            assert link.asked == []
            wake()
        async with asyncio.timeout(10):
            while len(link.asked) < 3:
                await asyncio.sleep(0.01)
        assert not answer.is_ready
        for told in (False, None):
            link.alike[KEY] = told
            await asyncio.sleep(0.3)
            assert not answer.is_ready
        link.alike[KEY] = True
        await leaves(answer)
        assert link.asked[0] == {KEY: BASE + 3}
        await keeper.aclose()

    asyncio.run(story())


def test_a_commit_is_compared_before_it_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A partition that cannot be read at that moment proves nothing: it is asked again. One in which nothing tells,
    as its records are gone, keeps nobody waiting.
    """

    async def ended(*_: object) -> Mapping[PartitionKey, int]:
        return {KEY: BASE + 3}

    async def story() -> None:
        link = Link()
        keeper, owner = Keeper(cast(Duties, Owing([link])), cast(Client, None)), Owner()
        monkeypatch.setattr(keeper._commits, "wait_for_end", ended)
        owed = CommitOwed(asked := CommitAsked("id", 4, 1, time.monotonic()), {KEY: Span(BASE, BASE + 2)})
        answer = HeldAnswer(bytearray(commit_refused(asked, codes.NONE)), 4, owed)
        keeper.keep(answer, owner)
        async with asyncio.timeout(10):
            while len(link.asked) < 3:
                await asyncio.sleep(0.01)
        assert not answer.is_ready
        link.alike[KEY] = None
        await leaves(answer)
        await keeper.aclose()

    asyncio.run(story())


@pytest.mark.parametrize("is_current", [True, False])
def test_what_was_not_there_is_not_compared(is_current: bool) -> None:
    """A follower that was seen to lack it has it now: that is enough, unless somebody else may write there by now, as
    the link may have been failed over and nobody has heard of it here.
    """

    async def story() -> None:
        link = Link(is_there=False, lacked=True, is_current=is_current, alike={KEY: False})
        keeper, answer = await kept(link)
        assert not answer.is_ready
        link.wakes[0]()
        if not is_current:
            async with asyncio.timeout(10):
                while len(link.asked) < 3:
                    await asyncio.sleep(0.01)
            assert not answer.is_ready
            link.alike[KEY] = True
        await leaves(answer)
        assert bool(link.asked) is not is_current
        await keeper.aclose()

    asyncio.run(story())


@pytest.mark.parametrize(
    ("lost", "code"),
    [
        ("all", codes.NOT_ENOUGH_REPLICAS_AFTER_APPEND),
        ("its topic", codes.NOT_ENOUGH_REPLICAS_AFTER_APPEND),
        ("another topic", codes.NONE),
    ],
)
def test_what_others_write_at_a_follower_that_failed_over_is_not_what_is_held(lost: str, code: int) -> None:
    """What comes to the follower of namespaces that were failed over is somebody else's, and what waits for it is told
    that it is late; of the others it is what is held.
    """

    async def story() -> None:
        owing = Owing([link := Link(is_there=False, lacked=True)])
        keeper, answer = await kept(link, keeper=Keeper(cast(Duties, owing), cast(Client, None)))
        link.is_lost, link.losses = lost == "all", int(lost != "all")
        if lost == "its topic":
            owing.links.insert(0, Link(is_lost=True, now=Duty.REFUSE))
        link.wakes[0]()
        await leaves(answer)
        (told,) = read_acknowledgements(memoryview(answer.frame), answer.version)
        assert told.code == code
        await keeper.aclose()

    asyncio.run(story())


@pytest.mark.parametrize("comes_first", [True, False])
def test_who_is_to_be_let_go_waits_as_well(comes_first: bool) -> None:
    """Whatever comes first lets it leave: word that the follower lags, or the follower."""

    async def story() -> None:
        link = Link(is_there=False, lacked=True, now=Duty.LET_GO)
        keeper, answer = await kept(link)
        async with asyncio.timeout(10):
            while not link.late:
                await asyncio.sleep(0.01)
        assert (link.late, answer.is_ready) == ({KEY: BASE}, False)
        if comes_first:
            link.wakes[0]()
        else:
            link.written.set()
        await leaves(answer)
        await keeper.aclose()

    asyncio.run(story())


@pytest.mark.parametrize(
    ("producer_id", "ends", "first"),
    [
        (-1, [BASE - 7], BASE),
        (1000, [BASE - 7], BASE - 7),
        (1000, [BASE + 9], BASE),
        (1000, [-1, -1, 3], 3),
        (1000, [-1], 0),
    ],
    ids=["plain", "idempotent", "ahead", "told later", "not told"],
)
def test_what_an_idempotent_producer_wrote_before_is_let_go_as_well(
    producer_id: int, ends: list[int], first: int
) -> None:
    """A client that is told of a batch of an idempotent producer takes its earlier batches for acknowledged: so all is
    written down that the follower may lack, from its end on.
    """

    async def story() -> None:
        link = Link(is_there=False, lacked=True, now=Duty.LET_GO, ends=ends)
        keeper, answer = await kept(link, producer_id)
        link.written.set()
        await leaves(answer)
        assert link.late == {KEY: first}
        await keeper.aclose()

    asyncio.run(story())


@pytest.mark.parametrize(("count", "lag_max_ms"), [(1, 100), (40, 2000)], ids=["less lag", "many"])
def test_a_follower_that_does_not_tell_where_it_ends_stops_nobody(count: int, lag_max_ms: int) -> None:
    """However many are to be let go, and however little it may lag: where it ends is waited for once, by all."""

    async def story() -> None:
        link = Link(is_there=False, lacked=True, settings=SyncSettings(lag_max_ms=lag_max_ms), ends=[-1])
        keeper, first = await kept(link, 1000)
        answers = [first, *[(await kept(link, 1000, keeper))[1] for _ in range(count - 1)]]
        link.written.set()
        link.now = Duty.LET_GO
        for each in answers:
            await leaves(each)
        assert link.late == {KEY: 0}
        await keeper.aclose()

    asyncio.run(story())
