"""What a gateway does for others that are gone: what they answered is proven; who has not ended stays in the way."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable, Collection, Coroutine, Iterable
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, Final, cast

import pytest

from isthmus.gateway.synchronous.others import OtherGateways
from isthmus.ledger.documents.kinds import Document, GatewayDocument, GatewayPairDocument
from isthmus.ledger.records import Deletion, LedgerChange
from isthmus.local.host import start_of, whereabouts
from isthmus.memory.links import LedgerMemory
from isthmus.model.gateways.synchrony import HEARD_S, FirstUnheld, OutOfSync, SyncState
from isthmus.model.naming import SourceTopic
from isthmus.model.process.whereabouts import UNKNOWN

SAID: Final = "the statement"
US: Final = GatewayDocument(
    gateway="us", host="h", pid=1, advertised="kafka:19092", ports=(1, 2), version="1", since_ms=0, beat=7
)
OTHER: Final = replace(US, gateway="other", host="elsewhere")
WORD: Final = GatewayPairDocument(
    link="orders", gateway="other", said=SAID, by="other", state=SyncState.OUT_OF_SYNC, since_ms=1,
    out_of_sync=OutOfSync.AVAILABLE, reason="it stood still", lets_go=(FirstUnheld(SourceTopic("a"), 0, 5),),
)  # fmt: skip


@dataclass(slots=True)
class Held:
    """A link that this gateway holds for, and what its target's ledger was told."""

    name: str = "orders"
    mode_statement: str = SAID
    attached_said: str = "all"
    noted_by: Collection[str] = ()
    may_be: asyncio.Event = field(default_factory=asyncio.Event)
    there: list[LedgerChange] = field(default_factory=list)

    def word_of(self, other: GatewayDocument) -> GatewayPairDocument:
        """It is in sync."""
        return replace(
            WORD, gateway=other.gateway, said=self.mode_statement, state=SyncState.IN_SYNC, reason="", lets_go=()
        )

    async def wait_until_covered(self) -> None:
        """Once the test says so."""
        await self.may_be.wait()

    async def write_there(self, changes: Iterable[LedgerChange]) -> None:
        """It holds it."""
        self.there += changes


@dataclass(slots=True)
class Owner:
    """This gateway, what its ledger holds, and what it was told."""

    held: Collection[Held]
    document: GatewayDocument = US
    is_heard: bool = True
    holds_all: bool = True
    documents: dict[str, Document] = field(default_factory=dict)
    written: list[LedgerChange] = field(default_factory=list)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    async def write(self, changes: Iterable[LedgerChange]) -> None:
        """The ledger holds it."""
        found = list(changes)
        self.written += found
        self.put(*found)

    def put(self, *changes: LedgerChange) -> None:
        """The ledger holds what somebody has written."""
        for each in changes:
            self.documents.pop(each.key, None)
            if not isinstance(each, Deletion):
                self.documents[each.key] = each

    @property
    def memory(self) -> LedgerMemory:
        """The ledger, as a look at it shows it."""
        words = GatewayPairDocument.find_all(self.documents.values())
        unlinked = {key: each for key, each in self.documents.items() if not isinstance(each, GatewayPairDocument)}

        def of(link: str) -> Any:
            return SimpleNamespace(documents={each.key: each for each in words if each.link == link})

        links = sorted({each.link for each in words})
        return cast(LedgerMemory, SimpleNamespace(links=links, find_unlinked=lambda: unlinked, of=of))

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """It goes on beside."""
        self.tasks.append(asyncio.create_task(work))
        return self.tasks[-1]


async def look(others: OtherGateways, owner: Owner) -> None:
    """Look again and again, until all is done that can be."""
    for _ in range(4):
        others.watch(owner.memory)
        for _ in range(4):
            await asyncio.sleep(0)


def seen(
    *documents: Document, silent_s: float, holds_all: bool = True, is_proven: bool = True,
    noted_by: Collection[str] = (),
    then: Callable[[OtherGateways, Owner], None] = lambda _others, _owner: None,
) -> tuple[list[LedgerChange], list[LedgerChange]]:  # fmt: skip
    """What is written, here and at the link's target, once these were not heard of for so long."""

    async def story() -> tuple[list[LedgerChange], list[LedgerChange]]:
        link = Held(noted_by=noted_by)
        owner = Owner([link], holds_all=holds_all)
        owner.put(US, *documents)
        others = OtherGateways(owner)
        others.watch(owner.memory)
        others._seen = {one: (beat, at - silent_s) for one, (beat, at) in others._seen.items()}
        await look(others, owner)
        assert owner.written == [], "nothing is proven yet"
        then(others, owner)
        if is_proven:
            link.may_be.set()
        await look(others, owner)
        found = list(owner.written), list(link.there)
        for task in owner.tasks:
            task.cancel()
        await asyncio.gather(*owner.tasks, return_exceptions=True)
        return found

    return asyncio.run(story())


def test_what_a_silent_gateway_answered_is_proven_and_it_stays_in_the_ledger() -> None:
    """It knows of the link, and fences itself: both ledgers say that it is in sync, and nothing else changes."""
    here, there = seen(OTHER, WORD, silent_s=HEARD_S + 1)

    (word,) = here
    assert isinstance(word, GatewayPairDocument)
    assert (word.key, word.said, word.state, word.reason, word.lets_go) == (WORD.key, SAID, SyncState.IN_SYNC, "", ())
    assert there == [word, Deletion("prepared/orders/other")]


def test_nothing_is_written_for_one_that_is_not_known_to_know_of_a_link() -> None:
    """It may pass on what is written, though nobody hears it; nor for one whose word is that it is in sync."""
    former = replace(WORD, said="a former statement")
    for word in ([], [former], [replace(WORD, state=SyncState.IN_SYNC, lets_go=())]):
        assert seen(OTHER, *word, silent_s=HEARD_S + 1) == ([], [])
    assert seen(OTHER, WORD, silent_s=HEARD_S - 1) == ([], [])
    assert seen(OTHER, WORD, silent_s=HEARD_S + 1, is_proven=False) == ([], [])


def test_one_that_has_ended_is_taken_out_once_all_is_proven() -> None:
    """It said so itself, or an operator did: nobody waits for its silence."""
    here, there = seen(replace(OTHER, has_ended=True), WORD, silent_s=0.0)

    out, note = [Deletion(WORD.key), Deletion(OTHER.key)], Deletion("prepared/orders/other")
    assert here[1:] == out
    assert there == [here[0], note, *out]
    assert seen(replace(OTHER, has_ended=True), silent_s=0.0)[0][1:] == out
    words = seen(WORD, silent_s=HEARD_S + 1)[0]
    assert words[1:] == [Deletion(WORD.key)], "words are left of one that was taken out"


def test_one_that_has_ended_stays_where_another_link_cannot_be_proven() -> None:
    """This gateway does not hold for all links: what others let go of these is to be known. Of the links that it holds
    for nobody waits for one that answers nothing, whether it knew of them or not.
    """
    for words in ([], [WORD], [replace(WORD, said="a former statement")]):
        here, there = seen(replace(OTHER, has_ended=True), *words, silent_s=0.0, holds_all=False)
        (word,) = here
        assert isinstance(word, GatewayPairDocument)
        assert (word.key, word.said, word.state, word.lets_go) == (WORD.key, SAID, SyncState.IN_SYNC, ())
        assert there == [word, Deletion("prepared/orders/other")]
    assert seen(replace(OTHER, has_ended=True), silent_s=0.0, holds_all=False, is_proven=False) == ([], [])


@pytest.mark.parametrize("ends", [True, False])
def test_a_process_that_has_ended_on_this_host_is_taken_out(ends: bool) -> None:
    """Here it is certain. One that runs stays, however silent it is."""
    with subprocess.Popen(["sleep", "600"]) as process:
        here = whereabouts()
        found = replace(OTHER, host_id=here.host_id, pid=process.pid, process_start=start_of(process.pid) or UNKNOWN)
        if ends:
            process.kill()
            process.wait()
        written, _ = seen(found, silent_s=0.0 if ends else HEARD_S + 1)
        process.kill()
    assert written[-1:] == [Deletion(OTHER.key)] * ends


def test_one_that_is_heard_again_is_left_alone() -> None:
    """What was to be written of it is not, though it is proven by then."""

    def back(others: OtherGateways, owner: Owner) -> None:
        owner.put(replace(OTHER, beat=8))
        others.watch(owner.memory)

    assert seen(OTHER, WORD, silent_s=HEARD_S + 1, then=back) == ([], [])


def test_nothing_is_written_by_one_that_does_not_hear_the_ledger() -> None:
    """The other one may be back by then."""

    def deaf(_: OtherGateways, owner: Owner) -> None:
        owner.is_heard = False

    assert seen(OTHER, WORD, silent_s=HEARD_S + 1, then=deaf) == ([], [])


def test_one_that_may_be_back_by_now_keeps_what_it_has_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever stood still while it wrote here has not heard of others: what they have noted at a target is theirs."""

    async def write(owner: Owner, changes: Iterable[LedgerChange]) -> None:
        owner.written += changes
        owner.is_heard = False

    monkeypatch.setattr(Owner, "write", write)
    here, there = seen(OTHER, WORD, silent_s=HEARD_S + 1)
    assert len(here) == 1
    assert there == []


def test_what_one_has_noted_at_a_target_goes_though_it_has_said_farewell() -> None:
    """It did not know whether its last commits had ended there. One that has come is known at the target first, and
    keeps what it has noted; so does one of which nobody can say what it has noted.
    """
    note = Deletion("prepared/orders/other")
    for silent_s, documents, here, goes in (
        (HEARD_S + 1, [], [], True),
        (HEARD_S - 1, [], [], False),
        (HEARD_S + 1, [OTHER], [], False),
        (0.0, [replace(OTHER, has_ended=True)], [Deletion(OTHER.key)], True),
    ):
        written, there = seen(*documents, silent_s=silent_s, noted_by=["other"])
        assert (written[-1:], note in there) == (here, goes)
    assert seen(silent_s=HEARD_S + 1, noted_by=["us"]) == ([], [])
    assert seen(silent_s=HEARD_S + 1, noted_by=["other"], holds_all=False) == ([], [])
    assert seen(silent_s=HEARD_S + 1, noted_by=["other"], is_proven=False) == ([], [])


@pytest.mark.parametrize("is_apart", [True, False])
def test_what_is_synchronous_no_more_is_not_waited_for(is_apart: bool) -> None:
    """Its target may be gone for good: what others answered of what is left is proven without the link, or without
    what it let go of.
    """

    async def story() -> None:
        left, gone = Held(), Held(name="bills")
        left.may_be.set()
        owner = Owner([gone, left])
        owner.put(US, replace(OTHER, has_ended=True), WORD)
        others = OtherGateways(owner)
        await look(others, owner)
        assert OTHER.key in owner.documents, "the other link is not proven"
        owner.held = [left] if is_apart else [Held(name="bills", attached_said="less", may_be=left.may_be), left]
        await look(others, owner)
        assert owner.documents == {US.key: US}
        await asyncio.gather(*owner.tasks, return_exceptions=True)

    asyncio.run(story())


@pytest.mark.parametrize("other", [OTHER, replace(OTHER, has_ended=True), None])
def test_one_link_does_not_wait_for_another_ones_target(other: GatewayDocument | None) -> None:
    """What is proven of a link its word says, though the target of another one is away. Who has ended stays in the
    ledger until all is proven.
    """

    async def story() -> None:
        away, there = Held(name="bills"), Held()
        there.may_be.set()
        owner = Owner([away, there])
        bills = replace(WORD, link="bills")
        owner.put(US, bills, WORD, *([] if other is None else [other]))
        others = OtherGateways(owner)
        others.watch(owner.memory)
        others._seen = {one: (beat, at - HEARD_S - 1) for one, (beat, at) in others._seen.items()}
        await look(others, owner)
        word = owner.documents[WORD.key]
        assert isinstance(word, GatewayPairDocument)
        assert (word.state, word.lets_go) == (SyncState.IN_SYNC, ())
        assert owner.documents[bills.key] == bills
        assert other is None or owner.documents[other.key] == other
        away.may_be.set()
        await look(others, owner)
        stays = other is not None and not other.has_ended
        assert (OTHER.key in owner.documents, bills.key in owner.documents) == (stays, stays)
        await asyncio.gather(*owner.tasks, return_exceptions=True)

    asyncio.run(story())
