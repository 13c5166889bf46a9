"""The leaf that a distributor copies to, as the ledger of its source has it."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

import pytest

from isthmus import config
from isthmus.cluster.transaction import Transaction
from isthmus.control.links.declared import Declared
from isthmus.control.links.switching import read_allowances, read_choice, write_choice
from isthmus.control.loops.allowance import AllowanceLoop
from isthmus.control.loops.loop import LinkView
from isthmus.control.topics.plan import LinkPlan
from isthmus.ledger.documents import AllowanceDocument, Document, SwitchDocument
from isthmus.ledger.log import append_once
from isthmus.local import LocalCluster
from isthmus.model.naming import SourceTopic
from isthmus.model.switching import Allowance, LaneBegin, TargetChoice
from isthmus.wire.client import Client
from tests.integration.ledger.committed import killed, until_committed

pytestmark = pytest.mark.integration

X = SourceTopic("x")
ID = uuid.UUID(int=4)
WISH = TargetChoice(target="c", wanted="d")


def run(work: Callable[[Client], Awaitable[None]], cluster: LocalCluster) -> None:
    async def main() -> None:
        async with Client(cluster.cluster()) as client:
            await work(client)

    asyncio.run(main())


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
        await choose(client, link, WISH.asked("d", is_forced=True))
        assert await read_allowances(client, link, "c") == stated.lanes
        over = WISH.over([LaneBegin(X, ID, 0, 7)])
        await choose(client, link, over)
        assert await read_allowances(client, link, "c") is None
        assert await read_allowances(client, link, "d") == ()
        left = over.asked("e", is_forced=True).left((), {})
        assert (left.target, left.begins, left.doubts) == ("e", over.begins, ())

    run(work, west)


def test_a_choice_stays_whose_author_was_killed(
    west: LocalCluster, topic: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everybody goes by it as soon as it was read, so whoever runs the distributor then writes it again: brokers drop
    what was aborted, and the choice before would count once more.
    """
    file = (
        "clusters: {a: {bootstrap_servers: 'h:1'}, b: {bootstrap_servers: 'h:2'}, c: {bootstrap_servers: 'h:3'},"
        " d: {bootstrap_servers: 'h:4'}}\n"
        f"trees: [{{name: {topic('tree')}, clusters: [[a, b], [c, d]], topics: [x]}}]\n"
    )
    written = config.parse(file)
    name = written.trees[0].tree.distributor("a", 2, "d").name
    over = WISH.over([LaneBegin(X, ID, 0, 7)])

    def is_over(key: str, found: Mapping[str, Document]) -> bool:
        document = found.get(key)
        return isinstance(document, SwitchDocument) and document.choice == over

    async def work(client: Client) -> None:
        await choose(client, name, WISH)
        with monkeypatch.context() as patch:
            patch.setattr(Transaction, "end", killed)
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
