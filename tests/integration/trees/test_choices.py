"""The leaf that a distributor copies to, as the ledger of its source has it."""

from __future__ import annotations

import asyncio
import secrets
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

import pytest

from isthmus import config
from isthmus.errors import Unreachable
from isthmus.kafka.client import Client
from isthmus.kafka.transactions.transaction import Transaction
from isthmus.ledger.documents.declared import FiltersDocument
from isthmus.ledger.documents.kinds import AllowanceDocument, Document, SwitchDocument
from isthmus.ledger.log import append_once
from isthmus.local import LocalCluster
from isthmus.loops.loop import LinkView
from isthmus.memory.declared import Declared
from isthmus.memory.links import LedgerMemory
from isthmus.memory.switching import leave, read_allowances, read_choice, write_choice
from isthmus.model.configuration import Configuration
from isthmus.model.naming import SourceTopic
from isthmus.model.trees.switching import Allowance, LaneBegin, TargetChoice
from isthmus.topics.plan import LinkPlan
from isthmus.trees.allowance import AllowanceLoop
from testing.brokers.quotas import bounded
from testing.patience import TERM_S
from testing.records import topics
from testing.records.committed import cut_off, killed, until_committed

pytestmark = pytest.mark.integration

X = SourceTopic("x")
ID = uuid.UUID(int=4)
WISH = TargetChoice(target="c", wanted="d")


def run(work: Callable[[Client], Awaitable[None]], cluster: LocalCluster) -> None:
    async def main() -> None:
        async with Client(cluster.cluster()) as client:
            await work(client)

    asyncio.run(main())


def tree_of(name: str) -> Configuration:
    """A tree of four clusters, of which nobody is asked."""
    return config.parse(
        "clusters: {a: {bootstrap_servers: 'h:1'}, b: {bootstrap_servers: 'h:2'}, c: {bootstrap_servers: 'h:3'},"
        " d: {bootstrap_servers: 'h:4'}}\n"
        f"trees: [{{name: {name}, clusters: [[a, b], [c, d]], topics: [x]}}]\n"
    )


async def choose(client: Client, link: str, choice: TargetChoice) -> None:
    await write_choice(client, link, lambda _: choice)


def test_to_a_new_target_nothing_was_sent_yet(west: LocalCluster, topic: Callable[[str], str]) -> None:
    """So it may be left at once should it be gone, and the next leaf begins where it was to begin; what was stated for
    the one before says nothing of it. A wish changes nothing of what was stated.
    """
    link = topic("link")
    stated = AllowanceDocument(link=link, target="c", lanes=(Allowance(X, ID, 0, 5, 90),))

    async def work(client: Client) -> None:
        await choose(client, link, WISH)
        await append_once(client, [stated], replication_factor=None)
        await choose(client, link, WISH.ask_for("d", is_forced=True))
        assert await read_allowances(client, link, "c") == stated.lanes
        over = WISH.over([LaneBegin(X, ID, 0, 7)])
        await choose(client, link, over)
        assert await read_allowances(client, link, "c") is None
        assert await read_allowances(client, link, "d") == ()
        left = over.ask_for("e", is_forced=True).leave((), {})
        assert (left.target, left.begins, left.doubts) == ("e", over.begins, ())

    run(work, west)


def test_no_choice_is_made_of_an_older_state(
    west: LocalCluster, topic: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A leader of the ledger that is cut off from its peers shows what was chosen before, whoever has chosen since."""
    link = topic("link")

    async def work(client: Client) -> None:
        await choose(client, link, WISH)
        async with cut_off(client, monkeypatch):
            with pytest.raises(Unreachable, match="does not show a record that was just written there"):
                await choose(client, link, WISH.ask_for("e"))
        known = await read_choice(client, link)
        assert known is not None
        assert known.choice == WISH

    run(work, west)


def test_nothing_is_stated_by_an_older_state(
    west: LocalCluster, topic: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does whoever states how far a distributor may go do so by a look that may be older than the last choice."""
    written = tree_of(topic("tree"))
    name = written.trees[0].tree.distributor("a", 2, "d").name
    link = Declared().over(written).link(name)
    target = link.target.alias

    async def work(client: Client) -> None:
        await choose(client, name, TargetChoice(target=target, wanted=target))
        loop = AllowanceLoop()
        view = LinkView(link=link, source=client, target=client, plan=LinkPlan(link=name, source="a", target=target))
        async with cut_off(client, monkeypatch):
            with pytest.raises(Unreachable, match="does not show a record that was just written there"):
                await loop.apply(view, ())
        assert await read_allowances(client, name, target) is None

    run(work, west)


def test_more_is_stated_over_another_connection_if_a_quota_mutes_one(
    west: LocalCluster, topic: Callable[[str], str]
) -> None:
    """Where as much is written to the source as its quota lets pass, a distributor would wait for a minute each time
    that it has to say how far it goes.
    """
    link = Declared().over(written := tree_of(topic("tree"))).link(written.trees[0].tree.distributor("a", 2, "d").name)
    target, client_id = link.target.alias, topic("client")
    large = FiltersDocument(link=link.name, since_ms=0, topics_include=(secrets.token_hex(20_000),))

    async def scenario() -> None:
        async with Client(west.cluster(), client_id=client_id) as client:
            loop = AllowanceLoop()
            plan = LinkPlan(link=link.name, source="a", target=target)
            view = LinkView(link=link, source=client, target=client, plan=plan)

            async def state() -> float:
                """Have it say again how far it goes; until when its connection is muted by then."""
                loop._stated_at = float("-inf")
                await loop.apply(view, ())
                assert loop._writer is not None
                return loop._writer.muted_until

            try:
                with bounded(west, client_id, producer_byte_rate=500.0):
                    async with asyncio.timeout(TERM_S):
                        while (held_until := await state()) < time.monotonic() + TERM_S / 10:
                            await append_once(client, [large], replication_factor=None)
                        await state()
                    assert time.monotonic() < held_until
            finally:
                await loop.aclose()

    asyncio.run(scenario())


def test_a_leaf_is_not_left_by_an_older_statement(
    west: LocalCluster, topic: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have got more than what is read where a leader is cut off: the next leaf would get that again."""
    each = tree_of(topic("tree")).trees[0].tree.distributor("a", 2, "d")
    forced = WISH.ask_for("d", is_forced=True)
    empty = SourceTopic(topic("empty"))
    topics.create(west, empty)
    lanes = (Allowance(empty, ID, 0, 5, 90), Allowance(empty, ID, 0, 50, 900))
    refresh, looks = LedgerMemory.refresh, 0

    async def late(memory: LedgerMemory) -> None:
        nonlocal looks
        looks += 1
        if looks > 1:
            await refresh(memory)

    async def work(client: Client) -> None:
        await choose(client, each.name, forced)
        for lane in lanes:
            stated = AllowanceDocument(link=each.name, target="c", lanes=(lane,))
            async with Client(west.cluster()) as other:
                await append_once(other, [stated], replication_factor=None)
            if lane is lanes[0]:
                assert await read_allowances(client, each.name, "c") == stated.lanes
        with monkeypatch.context() as patch:
            patch.setattr(LedgerMemory, "refresh", late)
            await leave(client, each, forced)
        known = await read_choice(client, each.name)
        assert known is not None
        assert known.choice == forced
        await leave(client, each, forced)
        known = await read_choice(client, each.name)
        assert known is not None
        assert known.choice.begins == (LaneBegin(empty, ID, 0, 50),)

    run(work, west)


def test_a_choice_stays_whose_author_was_killed(
    west: LocalCluster, topic: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everybody goes by it as soon as it was read, so whoever runs the distributor then writes it again: brokers drop
    what was aborted, and the choice before would count once more.
    """
    written = tree_of(topic("tree"))
    name = written.trees[0].tree.distributor("a", 2, "d").name
    over = WISH.over([LaneBegin(X, ID, 0, 7)])

    def is_over(key: str, found: Mapping[str, Document]) -> bool:
        document = found.get(key)
        return isinstance(document, SwitchDocument) and document.choice == over

    end = Transaction.end

    ended: list[Transaction] = []

    async def killed_in_the_second(transaction: Transaction, *, commit: bool) -> None:
        # The first one only shows that what is read then is new.
        await (killed if ended else end)(transaction, commit=commit)
        ended.append(transaction)

    async def work(client: Client) -> None:
        await choose(client, name, WISH)
        with monkeypatch.context() as patch:
            patch.setattr(Transaction, "end", killed_in_the_second)
            with pytest.raises(asyncio.CancelledError):
                await choose(client, name, over)
        known = await read_choice(client, name)
        assert known is not None
        assert known.choice == over
        link = Declared(choices={("a", name): over}).over(written).link(name)
        loop = AllowanceLoop()
        try:
            plan = LinkPlan(link=name, source="a", target="d")
            await loop.apply(LinkView(link=link, source=client, target=client, plan=plan), ())
        finally:
            await loop.aclose()
        await until_committed(client, partial(is_over, known.key))

    run(work, west)
