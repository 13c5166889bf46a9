"""What a gateway may do with answers of synchronous links, by when it was heard and by what its file says."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Final, cast

import pytest

from isthmus.errors import ClusterError, Unreachable
from isthmus.gateway import synchrony
from isthmus.gateway.frames.duties import Duty
from isthmus.gateway.ports import ListenRange
from isthmus.gateway.server import GatewaySettings
from isthmus.gateway.synchronous import heldlink, noting
from isthmus.gateway.synchronous.crossing import is_crossing
from isthmus.gateway.synchronous.heldlink import HeldLink
from isthmus.gateway.synchronous.keeping import Keeper
from isthmus.gateway.synchronous.unusable import LOST_S, UnusableLink
from isthmus.gateway.synchrony import GatewayLinks
from isthmus.kafka.clock import lasting_s
from isthmus.ledger.documents.gateways import is_readable
from isthmus.ledger.documents.kinds import (
    ControllerDocument,
    DeclarationDocument,
    GatewayPairDocument,
    PreparedDocument,
    ProgressDocument,
    SynchronizedDocument,
    decode_document,
    encode_document,
)
from isthmus.ledger.records import Entry, LedgerChange
from isthmus.memory.links import LedgerMemory, LinkMemory
from isthmus.model.cluster import Cluster
from isthmus.model.configuration import Configuration
from isthmus.model.gateways.prepared import PreparedCommit, PreparedPart
from isthmus.model.gateways.synchrony import (
    FAILED_OVER,
    FENCE_S,
    HEARD_S,
    ONE_FOLLOWER,
    SYNC,
    GatewayWord,
    SyncState,
    SyncWord,
)
from isthmus.model.kafka.log import LogRange
from isthmus.model.kafka.transactions import Visibility
from isthmus.model.lane import LaneKey, LaneReport, LaneState
from isthmus.model.link import Link, Transactions
from isthmus.model.links.declaration import SOURCE, TARGET, Declaration, attachment, letting_go
from isthmus.model.namespace import NamespaceMap
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.process.listening import ListenAddress
from isthmus.model.registers import MODE, Author, change_registers
from testing.patience import TERM_S
from tests.unit.gateway.passages import place

HOST: Final = "127.0.0.1"
OUT: Final = {(SourceTopic("a-1"), 0): 7}
KNOWN: Final = Declaration(
    name="orders",
    registers=change_registers(
        (),
        {
            SOURCE: {"cluster_id": "E", "alias": "east"},
            TARGET: {"cluster_id": "W", "alias": "west"},
            MODE: SYNC,
            attachment(NamespaceMap.parse("a-:x-")): True,
        },
        Author(by="somebody", at_ms=1, where="W"),
    ),
)


def held(work: Callable[[GatewayLinks, HeldLink], Coroutine[Any, Any, None]]) -> None:
    """Do something with a gateway and one link of it that was in sync; nobody answers to it."""
    clusters = tuple(Cluster(alias=alias, bootstrap_servers=(f"{HOST}:1",)) for alias in ("east", "west"))
    settings = GatewaySettings(listen=ListenRange(HOST, 1, 1), advertise=ListenAddress(HOST, 1))

    async def scenario() -> None:
        links = GatewayLinks(Configuration(clusters=clusters, links=()), "east", settings)
        link = links._link(KNOWN)
        assert isinstance(link, Link)
        one = HeldLink(links, links._target(link), link, KNOWN, owes=True)
        await asyncio.sleep(0)
        try:
            await work(links, one)
        finally:
            await one.aclose()
            await links.aclose()

    asyncio.run(scenario())


def told(*links: Declaration) -> LedgerMemory:
    """What a ledger says that has nothing but these declarations, and that the last one was in sync."""
    memories = dict[str, SimpleNamespace]()
    for known in links:
        documents = [
            DeclarationDocument(link=known.name, cluster="E", registers=known.registers),
            *[SynchronizedDocument(link=known.name, said=KNOWN.mode_said, since_ms=1)] * (known is links[-1]),
        ]
        memories[known.name] = SimpleNamespace(documents={each.key: each for each in documents})
    return cast(LedgerMemory, SimpleNamespace(links=list(memories), of=memories.__getitem__))


def said(known: Declaration, values: Mapping[str, Any]) -> Declaration:
    """The same once this was said as well."""
    return known.join(change_registers(known.registers, values, Author(by="somebody", at_ms=2, where="W")))


def test_of_namespaces_that_fail_over_nothing_is_taken_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are held as before; the ledger knows that this gateway knows. Once they follow again they are held."""
    other = NamespaceMap.parse("b-:y-")
    both = said(KNOWN, {attachment(other): True})
    apart = said(both, letting_go("failover", [other], both))
    again = said(apart, {attachment(other): True})

    async def scenario(links: GatewayLinks, _: HeldLink) -> None:
        written = list[Any]()

        async def at_source(changes: Iterable[Any]) -> None:
            written.extend(changes)

        monkeypatch.setattr(links, "write", at_source)
        links.is_registered, links._cluster_id = True, "E"
        links._heard_at = lasting_s()
        links._take(told(both), lasting_s())
        held_link, losses = links.of("b-1"), 0
        assert held_link is not None
        for known, is_lost in ((apart, True), (again, False), (apart, True)):
            links._take(told(known), lasting_s())
            losses += known is apart
            found = links.of("b-1")
            assert found is not None
            assert (links.of("a-1"), held_link.losses) == (held_link, losses)
            assert held_link.duty(is_transactional=False) is Duty.HOLD
            assert (found.is_lost, found is held_link) == (is_lost, not is_lost)
            assert found.duty(is_transactional=False) is (Duty.REFUSE if is_lost else Duty.HOLD)
            async with asyncio.timeout(TERM_S):
                while not written or written[-1].attached_said != known.attached_said:
                    await asyncio.sleep(0.01)
            assert not held_link.is_lost
        links._lost[0]._lost_at -= LOST_S
        links._take(told(apart), lasting_s())
        assert links.of("b-1") is None

    held(scenario)


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("is_all", [True, False])
def test_a_failover_beside_which_something_else_is_detached(is_all: bool, is_first: bool) -> None:
    """Both came between two looks: what was failed over is lost all the same, and what was detached is not."""
    failed, detached = NamespaceMap.parse("b-:y-"), NamespaceMap.parse("c-:z-")
    three = said(KNOWN, {attachment(failed): True, attachment(detached): True})
    gone = [detached, *KNOWN.maps] if is_all else [detached]
    steps = [("detach", gone), ("failover", [failed])]
    known = three
    for verb, maps in steps if is_first else steps[::-1]:
        known = said(known, letting_go(verb, maps, known))

    async def scenario(links: GatewayLinks, _: HeldLink) -> None:
        links.is_registered, links._cluster_id = True, "E"
        links._take(told(three), lasting_s())
        links._take(told(known), lasting_s())
        found = links.of("b-1")
        assert found is not None
        assert found.is_lost
        assert links.of("c-1") is None

    held(scenario)


def test_what_failed_over_is_lost_where_the_link_is_held_as_it_was() -> None:
    """The gateway cannot use it as it is declared now, so that what it holds has the namespaces still."""
    other = NamespaceMap.parse("b-:y-")
    both = said(KNOWN, {attachment(other): True})

    async def scenario(links: GatewayLinks, _: HeldLink) -> None:
        links.is_registered, links._cluster_id = True, "E"
        links._take(told(both), lasting_s())
        held_link = links.of("b-1")
        links._configuration = replace(links._configuration, clusters=links._configuration.clusters[:1])
        links._take(told(said(both, letting_go("failover", [other], both))), lasting_s())
        found = links.of("b-1")
        assert held_link is not None
        assert found is not None
        assert links.of("a-1") is held_link
        assert held_link.target_topic(SourceTopic("b-1")) == "y-1"
        assert found.is_lost

    held(scenario)


def test_of_a_link_that_fails_over_nothing_is_taken_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ledger has what was let go of it; then it is asynchronous."""
    gone = said(KNOWN, letting_go("failover", KNOWN.maps, KNOWN))

    async def scenario(links: GatewayLinks, _: HeldLink) -> None:
        written = list[Any]()

        async def at_source(changes: Iterable[Any]) -> None:
            written.extend(changes)

        monkeypatch.setattr(links, "write", at_source)
        links.is_registered, links._cluster_id = True, "E"
        links._heard_at = lasting_s()
        links._take(told(KNOWN), lasting_s())
        held_link = links.of("a-1")
        assert isinstance(held_link, HeldLink)
        for _again in range(2):
            links._take(told(gone), lasting_s())
            assert links.of("a-1") is held_link
            assert (held_link.is_lost, held_link.duty(is_transactional=False)) == (True, Duty.REFUSE)
        async with asyncio.timeout(TERM_S):
            while not written or written[-1].attached_said != gone.attached_said:
                await asyncio.sleep(0.01)
        assert (written[-1].state, written[-1].reason) == (SyncState.OUT_OF_SYNC, FAILED_OVER)
        assert held_link._lost is not None
        held_link._lost._lost_at -= LOST_S
        links._take(told(gone), lasting_s())
        assert links.of("a-1") is None

    held(scenario)


def test_of_two_links_with_the_same_topics_one_is_held_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that was in sync once; the other one says in the ledger why it is not, and before that nothing of it
    leaves. Once it has the topics for itself it is held for.
    """
    second = said(
        Declaration(name="archive", registers=KNOWN.registers),
        {TARGET: {"cluster_id": "N", "alias": "north"}},
    )

    async def scenario(links: GatewayLinks, _: HeldLink) -> None:
        written, may_write = list[Any](), asyncio.Event()

        async def at_source(changes: Iterable[Any]) -> None:
            await may_write.wait()
            written.extend(changes)

        monkeypatch.setattr(links, "write", at_source)
        north = Cluster(alias="north", bootstrap_servers=(f"{HOST}:1",))
        clusters = (*links._configuration.clusters, north)
        links._configuration = replace(links._configuration, clusters=clusters)
        links.is_registered, links._cluster_id = True, "E"
        links._heard_at = links._back_at = lasting_s() - HEARD_S - 1.0
        links._heard_at = lasting_s()
        links._take(told(second, KNOWN), lasting_s())
        other, one = (links._links[each] for each in ("archive", "orders"))
        assert one.part.crossed == ""
        other.step()
        assert (links.of("a-1"), other.duty(is_transactional=False)) == (other, Duty.HOLD)
        may_write.set()
        async with asyncio.timeout(TERM_S):
            while links.of("a-1") is not one:
                await asyncio.sleep(0.01)
        assert other.duty(is_transactional=False) is Duty.PASS
        assert not is_crossing(links.held)
        other.step()
        assert other.part.due is None, "it goes on saying why"
        word = next(each for each in GatewayPairDocument.find_all(written) if each.link == "archive")
        assert word.state is SyncState.SYNCING
        assert word.reason == "a-* of east is in the synchronous link orders too, and " + ONE_FOLLOWER
        links._take(told(second, said(KNOWN, letting_go("detach", KNOWN.maps, KNOWN))), lasting_s())
        assert (links.of("a-1"), other.part.crossed) == (other, "")
        links._take(told(second, KNOWN), lasting_s())
        assert is_crossing(links.held)
        next(each for each in links.held if each.part.crossed).lose(KNOWN.maps)
        assert not is_crossing(links.held), "nothing of one that was failed over is held for anybody"

    held(scenario)


def test_a_follower_is_the_cluster_that_was_declared() -> None:
    """A file may have another one by that name, where everything has been for long."""

    async def scenario(_: GatewayLinks, one: HeldLink) -> None:
        assert one.link.target.cluster_id == "W"
        assert {one.target.client.cluster.cluster_id, one.follower.client.cluster.cluster_id} == {"W"}

    held(scenario)


@pytest.mark.parametrize("lapse_s", [FENCE_S / 2, FENCE_S + 1.0])
def test_one_that_was_taken_for_gone_lets_nothing_go_for_a_while(lapse_s: float) -> None:
    """What it writes may be deleted, by others that have not heard yet that it is back."""

    async def scenario(links: GatewayLinks, one: HeldLink) -> None:
        one.part.let_go(OUT, "it stood still")
        while one.part.due is not None:
            one.part.wrote(one.part.due)
        now = lasting_s()
        assert one.duty(is_transactional=False) is Duty.REFUSE, "it was never heard"
        for ago_s in (HEARD_S - 0.5 + lapse_s, HEARD_S - 0.5, HEARD_S / 2, 1.0):
            links._hear(now - ago_s)
        assert one.duty(is_transactional=False) is (Duty.LET_GO if lapse_s < FENCE_S else Duty.HOLD)
        leaving = asyncio.create_task(one.let_go(OUT))
        await asyncio.sleep(0)
        assert leaving.done() is (lapse_s < FENCE_S)
        leaving.cancel()
        links._back_at -= HEARD_S
        assert one.duty(is_transactional=False) is Duty.LET_GO, "it was back long enough"

    held(scenario)


def test_what_a_target_could_not_be_told_comes_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its ledger knows that a gateway was in sync, though that could not be written while it was."""

    async def scenario(links: GatewayLinks, one: HeldLink) -> None:
        told, may_write = dict[str, object](), asyncio.Event()

        async def at_source(_: object) -> None:
            """It holds everything."""

        async def at_target(changes: Iterable[Any]) -> None:
            if not may_write.is_set():
                await may_write.wait()
                raise Unreachable("it was away")
            told.update((each.key, each) for each in changes)

        monkeypatch.setattr(links, "write", at_source)
        monkeypatch.setattr(one.target, "write", at_target)
        one.part.is_holding = True
        one.part.prove(one.part.round)
        await one._write()
        one.part.stop("it stood still")
        await one._write()
        may_write.set()
        assert one._copying is not None
        await one._copying
        told_of = told["synchronized/orders"]
        assert isinstance(told_of, SynchronizedDocument)
        assert told_of.reveals
        word = told[one.document(SyncWord()).key]
        assert isinstance(word, GatewayPairDocument)
        assert word.state is SyncState.OUT_OF_SYNC

    held(scenario)


@pytest.mark.parametrize(
    ("states", "is_told"),
    [
        ([SyncState.SYNCING], False),
        ([SyncState.IN_SYNC], True),
        ([SyncState.IN_SYNC, None], False),
        ([SyncState.IN_SYNC, SyncState.SYNCING], False),
        ([SyncState.OUT_OF_SYNC, None], True),
    ],
)
def test_a_follower_is_read_once_all_gateways_are_in_sync(
    states: list[SyncState | None], is_told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or one of them is out of sync: the target's ledger is told so, once, and by which statement."""

    async def scenario(_: GatewayLinks, one: HeldLink) -> None:
        told = list[Any]()

        async def at_target(changes: Iterable[Any]) -> None:
            told.extend(changes)

        monkeypatch.setattr(one.target, "write", at_target)
        words = [
            GatewayWord(described="g", heard_s=1.0, word=None if each is None else SyncWord(state=each))
            for each in states
        ]
        one.reveal(words)
        await asyncio.sleep(0)
        assert told == [], "nobody has read yet what the target's ledger says"
        documents = dict[str, Any]()
        one.target.memory = cast(Any, SimpleNamespace(of=lambda _: SimpleNamespace(documents=documents)))
        for _again in range(2):
            one.reveal(words)
            if one._revealing is not None:
                await one._revealing
            documents |= {each.key: each for each in told}
        assert [(each.key, each.said) for each in told] == [("readable/orders", one.link.mode_said)] * is_told


@pytest.mark.parametrize("visibility", list(Visibility))
def test_commits_are_prepared_where_lanes_may_copy_what_is_open(visibility: Visibility) -> None:
    """A lane that begins anew, or that nobody has heard yet, may copy it unless that is ruled out: what were not waited
    for, and not noted, would be torn at a failover.
    """
    lane, source = LaneKey(TargetTopic("x-1"), 0), (SourceTopic("a-1"), 0)
    entries = list[Entry]()

    def told(generation: int, source_end: int, stable_end: int) -> None:
        report = LaneReport(key=lane, state=LaneState.ACTIVE, source_end=source_end, stable_end=stable_end)
        document = ProgressDocument(
            link="orders", slot=0, controller=generation, generation=1, is_full=False, reports=(report,)
        )
        entries.append(Entry(len(entries), document.key, encode_document(document), 0))

    async def scenario(_: GatewayLinks, one: HeldLink) -> None:
        def copies_open() -> bool:
            found = LinkMemory.of("orders", entries)
            one.target.memory = cast("LedgerMemory", SimpleNamespace(of=lambda _: found))
            return one.copies_open(source)

        may_be = visibility is not Visibility.RECORD
        one.update(replace(one.link, transactions=Transactions(visibility=visibility)))
        assert one.copies_open(source) is may_be, "the target's ledger was not read"
        assert copies_open() is may_be, "nobody has told of it"
        assert not one.copies_open((SourceTopic("other"), 0))
        told(1, -1, -1)
        assert copies_open() is may_be, "its lane has not heard the source"
        told(1, 5, 3)
        assert copies_open()
        entries.append(controller(2))
        assert copies_open(), "another controller goes on with it"
        told(2, -1, -1)
        assert copies_open()
        told(2, 6, -1)
        assert not copies_open(), "it goes record by record by now"

    def controller(generation: int) -> Entry:
        document = ControllerDocument(link="orders", generation=generation, beat=1, started_ms=0)
        return Entry(len(entries), document.key, encode_document(document), 0)

    held(scenario)


def test_what_is_noted_of_a_commit_stays_in_the_ledger() -> None:
    """Nothing is while others may take the gateway for gone, and delete it. A link that is synchronous anew has noted a
    commit when its former self leaves.
    """
    written, other = list[LedgerChange](), PreparedCommit(2, (PreparedPart(TargetTopic("x-1"), 0, 0, 1),))

    async def write(changes: Iterable[LedgerChange]) -> None:
        written.extend(changes)

    async def scenario(links: GatewayLinks, one: HeldLink) -> None:
        cast("Any", one.target).write = write
        link = replace(one.link, name="others")
        former, now = HeldLink(links, one.target, link, KNOWN, owes=True), lasting_s()
        for ago_s in (HEARD_S, HEARD_S / 4, 0.0):
            links._hear(now - ago_s)
        noting = asyncio.create_task(former.note(PreparedCommit(1, ())))
        await asyncio.sleep(0.3)
        assert (noting.done(), written) == (False, [])
        links._back_at -= HEARD_S
        await noting
        former.forget(1, {})
        later = HeldLink(links, one.target, link, KNOWN, owes=True)
        await later.note(other)
        await former.leave()
        assert isinstance(written[-1], PreparedDocument)
        assert written[-1].commits == (other,)

    held(scenario)


def test_a_target_that_does_not_answer_holds_up_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who looks what has ended there is cancelled: nothing is written in its place."""
    written, asked = list[LedgerChange](), asyncio.Event()

    async def write(changes: Iterable[LedgerChange]) -> None:
        written.extend(changes)

    async def scenario(links: GatewayLinks, one: HeldLink) -> None:
        async def hangs(*_: object, **__: object) -> None:
            asked.set()
            await asyncio.Event().wait()

        cast("Any", one.target).write = write
        monkeypatch.setattr(noting, "log_ranges", hangs)
        links._heard_at = lasting_s()
        commit = PreparedCommit(1, (PreparedPart(TargetTopic("x-1"), 0, 0, 1),))
        own = one.target.notes("others", "us")
        await own.add(commit)
        await own.add(PreparedCommit(2, commit.parts))
        own.forget(1, {(TargetTopic("x-1"), 0): 1})
        cleaning = asyncio.create_task(own.clean())
        await asked.wait()
        cleaning.cancel()
        await asyncio.gather(cleaning, return_exceptions=True)
        assert len(written) == 2
        monkeypatch.setattr(noting, "log_ranges", untold)
        with pytest.raises(Unreachable):
            await own.clean()
        assert len(written) == 3

    async def untold(*_: object, **__: object) -> None:
        raise Unreachable("it does not answer")

    held(scenario)


def test_a_follower_whose_ledger_cannot_be_written_takes_no_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that have to be noted there are not forwarded. Once that has lasted as long as the follower may lag, the
    link is out of sync, and says why: clients abort. It is tried again, though nobody commits any more.
    """
    commit, written = PreparedCommit(1, (PreparedPart(TargetTopic("x-1"), 0, 0, 1),)), list[LedgerChange]()
    may_write = asyncio.Event()

    async def at_target(changes: Iterable[LedgerChange]) -> None:
        if not may_write.is_set():
            raise Unreachable("its ledger has no leader")
        written.extend(changes)

    async def scenario(links: GatewayLinks, other: HeldLink) -> None:
        async def until(is_true: Callable[[], bool]) -> None:
            async with asyncio.timeout(TERM_S):
                while not is_true():
                    one.step()
                    await asyncio.sleep(0.01)

        async def at_source(_: object) -> None:
            """It holds everything."""

        async def nothing() -> None:
            """Nobody answers."""

        monkeypatch.setattr(links, "write", at_source)
        cast("Any", other.target).write = at_target
        link = replace(other.link, name="others", sync=replace(other.link.sync, lag_max_ms=300))
        one = HeldLink(links, other.target, link, KNOWN, owes=True)
        monkeypatch.setattr(one, "_look", nothing)
        monkeypatch.setattr(one, "wait_until_covered", nothing)
        one.target.heard_at = float("inf")
        links._heard_at = lasting_s()
        one.step()
        with pytest.raises(Unreachable):
            await one.note(commit)
        one.step()
        assert one.duty(is_transactional=True) is Duty.HOLD
        await until(lambda: one.duty(is_transactional=True) is Duty.REFUSE and one.part.due is None)
        assert one.part.word is not None
        assert "the ledger of west cannot be written" in one.part.word.reason
        may_write.set()
        await until(lambda: not one._trouble())
        assert isinstance(written[-1], PreparedDocument)
        assert written[-1].commits == (commit,)
        await one.aclose()

    held(scenario)


def test_what_was_to_be_done_as_a_gateway_ends_is_not_left_behind() -> None:
    """It is closed, although it never began."""

    async def scenario(links: GatewayLinks, one: HeldLink) -> None:
        work = one.leave()
        links.start(work).cancel()
        await asyncio.sleep(0.01)
        assert inspect.getcoroutinestate(work) == inspect.CORO_CLOSED

    held(scenario)


def test_what_an_older_release_had_in_sync_is_read_on() -> None:
    """A gateway of this one that is in sync later does not hide it: who runs the link could keep readers out then."""

    async def scenario(_: GatewayLinks, one: HeldLink) -> None:
        said = one.link.mode_said
        older = decode_document(
            "synchronized/orders",
            json.dumps({"schema_version": 1, "link": "orders", "said": said, "since_ms": 1}).encode(),
        )
        assert isinstance(older, SynchronizedDocument)
        documents = {older.key: older}
        one.target.memory = cast(Any, SimpleNamespace(of=lambda _: SimpleNamespace(documents=documents)))
        assert is_readable("orders", said, [one._build_synchronized()])
        assert not is_readable("orders", "another", [one._build_synchronized()])
        documents.clear()
        assert not is_readable("orders", said, [one._build_synchronized()])

    held(scenario)


def test_what_was_let_go_of_is_not_waited_for_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest of a link is proven anew: what was detached while it was waited for may never come to the follower."""
    begun = list[int]()

    async def scenario(links: GatewayLinks, one: HeldLink) -> None:
        async def never() -> None:
            begun.append(one.part.round)
            await asyncio.Event().wait()

        async def at_source(_: Iterable[LedgerChange]) -> None:
            pass

        monkeypatch.setattr(one, "wait_until_covered", never)
        monkeypatch.setattr(links, "write", at_source)
        for known in (KNOWN, KNOWN, said(KNOWN, {attachment(NamespaceMap.parse("b-:y-")): False})):
            if known is not KNOWN:
                one.go_by(known)
            one._begin_proving()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        assert begun == [one.part.round] * 2

    held(scenario)


@pytest.mark.parametrize(("told", "is_covered"), [({}, False), ({("a-1", 0): None}, True), ({("a-1", 0): True}, True)])
def test_a_follower_that_cannot_be_compared_is_not_proven_to_have_all(
    told: dict[tuple[str, int], bool | None], is_covered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have other records there, as long as one side cannot be read; what was copied once is not waited for."""

    async def scenario(_: GatewayLinks, one: HeldLink) -> None:
        async def logs() -> dict[tuple[str, int], LogRange]:
            return {("a-1", 0): LogRange(0, 5, 5), ("gone", 0): LogRange(0, 5, 5)}

        async def all_there(_: object) -> None:
            """The high watermarks are that far."""

        async def compared(*_: object) -> dict[tuple[str, int], bool | None]:
            return told

        monkeypatch.setattr(one, "_source_logs", logs)
        monkeypatch.setattr(one.follower, "wait_until_covered", all_there)
        monkeypatch.setattr(heldlink, "same_before", compared)
        with contextlib.nullcontext() if is_covered else pytest.raises(ClusterError, match="no proof"):
            await one.wait_until_covered()

    held(scenario)


def test_a_gateway_that_stood_still_reads_what_is_synchronous_before_anything_passes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It may have been forgotten, and links may have become synchronous since. That clients have not moved is known
    before, and a look that was begun before it stood still tells nothing.
    """

    async def scenario(links: GatewayLinks, _: HeldLink) -> None:
        read = asyncio.Event()

        async def memory(_: object) -> LedgerMemory:
            is_synchronous = read.is_set()
            await read.wait()
            return cast(LedgerMemory, told(KNOWN) if is_synchronous else SimpleNamespace(links=[]))

        monkeypatch.setattr(synchrony, "read_ledger", memory)
        links._cluster_id = "E"
        async with place() as here:
            here.gateway.keeper = Keeper(links, here.gateway.client)
            here.gateway.asleep_max_s = 1.0
            links.stand_behind(here.gateway)
            looking = asyncio.create_task(links._cycle())
            await asyncio.sleep(0)
            here.gateway.awake(lasting_s() + 10.0)
            here.gateway.fence(is_up=False, why="doubt")
            read.set()
            await looking
            assert (here.gateway.is_fenced, links.of("a-1")) == (True, None)
            await links._cycle()
            assert not here.gateway.is_fenced
            assert links.of("a-1") is not None

    held(scenario)


@pytest.mark.parametrize("is_traced", [True, False])
def test_one_that_has_left_traces_is_not_trusted_at_once(is_traced: bool) -> None:
    """Others may be about to write over what it left there, as its clients went to another cluster, and have not heard
    yet that it is back.
    """

    async def scenario(first: GatewayLinks, _: HeldLink) -> None:
        configuration = Configuration(clusters=(first._cluster,), links=())
        settings = GatewaySettings(listen=ListenRange(HOST, 1, 1), advertise=ListenAddress(HOST, 1))
        links = GatewayLinks(configuration, "east", settings, first.document, is_traced=is_traced)
        now = lasting_s()
        for ago_s in (1.0, 0.0):
            links._hear(now - ago_s)
            assert (links.is_heard, links.is_trusted) == (True, not is_traced)
        links._back_at -= HEARD_S
        assert links.is_trusted
        await links.aclose()

    held(scenario)


def test_one_that_ends_knows_whether_it_leaves_traces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing does that has proven all, and has no commit whose end is not at the follower."""

    async def scenario(links: GatewayLinks, one: HeldLink) -> None:
        async def write(_: object) -> None:
            """It holds everything."""

        monkeypatch.setattr(links, "write", write)
        monkeypatch.setattr(one.target, "write", write)
        monkeypatch.setattr(one.target._notes["orders"], "_write", write)
        links._links["orders"] = one
        found = [links.leaves_traces]
        await links._say_farewell()
        found.append(links.leaves_traces)
        one.part.is_holding = True
        one.part.prove(one.part.round)
        assert one.part.due is not None
        one.part.wrote(one.part.due)
        await links._say_farewell()
        assert [*found, links.leaves_traces] == [True, True, False]
        links._heard_at = lasting_s()
        notes = one.target._notes["orders"]
        found = [one.target.has_notes]
        await one.note(PreparedCommit(1, ()))
        found.append(one.target.has_notes)
        notes.forget(1, {})
        await notes.clean()
        assert [*found, one.target.has_notes] == [False, True, False]
        del links._links["orders"]

    held(scenario)


def test_one_that_nobody_waits_for_takes_nothing_while_it_hears_nothing() -> None:
    """Links may have become synchronous since, whichever: what was taken before is told to be late, and goes on to be
    once the ledger is heard again. Others are waited for.
    """

    async def scenario(links: GatewayLinks, _: HeldLink) -> None:
        links._heard_at = lasting_s()
        assert (links.of("other"), tuple(links.links)) == (None, ())
        links._heard_at -= FENCE_S + 1.0
        found = links.of("other")
        assert found is not None
        assert found.duty(is_transactional=False) is Duty.REFUSE
        assert found.is_lost
        assert (list(links.links), found.target_group("any")) == ([found], "any")
        links.is_registered = True
        assert (links.of("other"), tuple(links.links)) == (None, ())
        links.is_registered = False
        links._cluster_id = "E"
        links._take(told(KNOWN), lasting_s())
        known = links.of("a-1")
        assert isinstance(known, UnusableLink)
        assert known is not found
        links._heard_at = lasting_s()
        assert tuple(links.links) == (known,)

    held(scenario)
