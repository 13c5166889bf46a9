"""Commits that wait before they are forwarded, and what is written down of them, without a broker."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import pytest

from isthmus.errors import Unreachable
from isthmus.gateway.frames.committing import CommitAsked, CommitOwed, Span, TransactionSeen, code_of_commit
from isthmus.gateway.frames.duties import Duty
from isthmus.gateway.synchronous.noting import Notes
from isthmus.gateway.synchronous.preparing import Preparations
from isthmus.gateway.synchronous.unusable import LostNamespaces
from isthmus.kafka import codes
from isthmus.ledger.documents.kinds import PreparedDocument
from isthmus.ledger.records import Deletion, LedgerChange
from isthmus.model.gateways.prepared import PreparedCommit, PreparedPart
from isthmus.model.gateways.synchrony import SyncSettings
from isthmus.model.links.declaration import Declaration
from isthmus.model.namespace import NamespaceMap
from isthmus.model.naming import SourceTopic, SourceTopicPartition, TargetTopic, TargetTopicPartition

ORDERS, COPY = SourceTopic("orders"), TargetTopic("copy.orders")
SPANS = {(ORDERS, 0): Span(3, 7), (ORDERS, 1): Span(0, 2)}
BOTH = PreparedCommit(5, (PreparedPart(COPY, 0, 3, 7), PreparedPart(COPY, 1, 0, 2)))


class Waiter:
    """Nobody."""

    def cancel(self) -> None: ...


@dataclass(eq=False)
class Link:
    """A link whose follower has nothing until the test says so."""

    is_lost = False

    state: Duty = Duty.HOLD
    is_whole: bool = True
    still: float = 0.0
    is_unwritable: bool = False
    name: str = "orders"
    settings: SyncSettings = field(default_factory=SyncSettings)
    wakes: list[Callable[[], None]] = field(default_factory=list)
    notes: list[PreparedCommit] = field(default_factory=list)
    on_note: Callable[[], None] = lambda: None

    @property
    def follower(self) -> Link:
        return self

    def still_s(self, key: TargetTopicPartition) -> float:
        return self.still

    def wait(self, key: TargetTopicPartition, offset: int, wake: Callable[[], None]) -> Waiter:
        self.wakes.append(wake)
        return Waiter()

    def target_topic(self, source_topic: SourceTopic) -> TargetTopic:
        return TargetTopic(f"copy.{source_topic}")

    def copies_open(self, key: SourceTopicPartition) -> bool:
        return self.is_whole

    def duty(self, *, is_transactional: bool) -> Duty:
        return self.state

    def stand_still(self, late: Mapping[SourceTopicPartition, int]) -> None:
        self.state = Duty.REFUSE

    async def note(self, commit: PreparedCommit) -> None:
        if self.is_unwritable:
            raise Unreachable("its ledger has no leader")
        self.notes.append(commit)
        self.on_note()


class Links:
    """One of them."""

    def __init__(self, link: Link) -> None:
        self.links: list[Link | LostNamespaces] = [link]

    def of(self, source_topic: str) -> Link | LostNamespaces:
        return next(each for each in self.links if each.target_topic(SourceTopic(source_topic)) is not None)


def prepared(
    link: Link,
    become: Callable[[], None],
    *,
    ago_s: float = 0.0,
    spans: Mapping[SourceTopicPartition, Span] = SPANS,
    links: Links | None = None,
) -> int | None:
    """What a commit is answered that was asked for so long ago, once something has become true while it waited; `None`
    if it is forwarded.
    """
    asked = CommitAsked("id", 4, 9, time.monotonic() - ago_s)
    owed = CommitOwed(asked, spans, seen=TransactionSeen(5, is_open=True))

    async def story() -> int | None:
        preparing = Preparations(cast("Any", links or Links(link)))
        waiting = asyncio.create_task(preparing.prepare(owed))
        await asyncio.sleep(0)
        become()
        answer = await waiting
        assert preparing.waiting() == []
        return None if answer is None else code_of_commit(memoryview(answer), 4)

    return asyncio.run(story())


def arrive(link: Link) -> None:
    """The follower has everything."""
    for wake in link.wakes:
        wake()


def test_a_commit_is_forwarded_once_all_is_there_and_noted() -> None:
    """What is about one partition only cannot be torn, and needs no note."""
    link = Link()
    assert prepared(link, lambda: arrive(link)) is None
    assert link.notes == [BOTH]
    assert prepared(link, lambda: arrive(link), spans={(ORDERS, 0): Span(3, 7)}) is None
    assert link.notes == [BOTH]


@pytest.mark.parametrize(
    ("become", "ago_s", "code"),
    [
        ({}, 12.0, codes.COORDINATOR_LOAD_IN_PROGRESS),
        ({"state": Duty.REFUSE}, 0.0, codes.TRANSACTION_ABORTABLE),
        ({"still": 10.0}, 0.0, codes.TRANSACTION_ABORTABLE),
        ({"is_whole": False}, 0.0, None),
        ({"state": Duty.PASS}, 0.0, None),
    ],
)
def test_what_becomes_of_a_commit_that_waits(become: Mapping[str, Any], ago_s: float, code: int | None) -> None:
    """Late: asked again. Out of sync, or standing still: aborted. Where nothing is prepared any more: forwarded."""
    link = Link()

    def change() -> None:
        for name, value in become.items():
            setattr(link, name, value)

    assert prepared(link, change, ago_s=ago_s) == code
    assert link.notes == []


@pytest.mark.parametrize(
    ("state", "code"),
    [(Duty.HOLD, codes.COORDINATOR_LOAD_IN_PROGRESS), (Duty.REFUSE, codes.TRANSACTION_ABORTABLE)],
)
def test_a_commit_that_cannot_be_noted_is_not_forwarded(state: Duty, code: int) -> None:
    """Its client asks again, until the link is out of sync for that."""
    link = Link(is_unwritable=True)

    def become() -> None:
        arrive(link)
        link.state = state

    assert prepared(link, become) == code


@pytest.mark.parametrize("is_there", [False, True])
def test_a_commit_is_not_forwarded_whose_topic_failed_over_while_it_waited(is_there: bool) -> None:
    """Nothing more of it gets to the follower, of others of the link it does. It may have been there before that."""
    link = Link()
    links = Links(link)

    def fail_over() -> None:
        lost = LostNamespaces(Declaration(name="orders", registers=()), [NamespaceMap.parse("orders:copy.orders")])
        links.links.insert(0, lost)
        # What it copies no more it does not copy before it is decided either.
        link.is_whole = is_there

    if is_there:
        link.on_note = fail_over
    become = partial(arrive, link) if is_there else fail_over
    assert prepared(link, become, links=links) == codes.TRANSACTION_ABORTABLE


def test_notes_go_together_and_go_once_all_has_ended() -> None:
    """One document for all that come while another one is written; what has ended is taken out with the next."""
    written: list[list[LedgerChange]] = []
    next_one = BOTH._replace(parts=(PreparedPart(COPY, 0, 8, 9), PreparedPart(COPY, 1, 3, 4)))

    async def write(changes: Iterable[LedgerChange]) -> None:
        await asyncio.sleep(0)
        written.append(list(changes))

    def ends(commit: PreparedCommit) -> dict[TargetTopicPartition, int]:
        return {(each.topic, each.partition): each.end for each in commit.parts}

    def document(*commits: PreparedCommit) -> list[LedgerChange]:
        return [PreparedDocument(link="orders", gateway="g", commits=commits)]

    async def story() -> None:
        notes = Notes("orders", "g", cast("Any", None), write)
        sixth, seventh, eighth = (BOTH._replace(producer_id=each) for each in (6, 7, 8))
        await asyncio.gather(*map(notes.add, (BOTH, sixth, seventh)))
        first = document(BOTH, sixth, seventh)
        assert written in ([document(BOTH), first], [first])
        notes.forget(6, ends(BOTH))
        # Of the former one nobody knows whether it has ended: its client had no answer, and has begun anew.
        await notes.add(next_one)
        assert written[-1] == document(BOTH, seventh, next_one)
        notes.forget(5, {(COPY, 0): 7})
        await notes.add(sixth)
        assert written[-1] == document(BOTH, seventh, next_one, sixth)
        notes.forget(5, ends(BOTH))
        await notes.add(eighth)
        assert written[-1] == document(seventh, next_one, sixth, eighth)
        for each in (6, 7, 8):
            notes.forget(each, ends(BOTH))
        notes.forget(5, ends(next_one))
        await notes.clean()
        assert written[-1] == [Deletion(PreparedDocument(link="orders", gateway="g").key)]

    asyncio.run(story())
