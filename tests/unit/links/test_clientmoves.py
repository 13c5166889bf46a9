"""What speaks against moving clients, by what gateways say of themselves."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from isthmus.kafka.client import Client
from isthmus.ledger.documents.kinds import MovableGatewayDocument
from isthmus.links.clientmoves import ClientMove
from isthmus.model.cluster import Cluster


def test_clients_that_would_be_refused_do_not_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their gateway has no login of the target for their certificates. What one says that has ended is no matter."""

    async def none(_: ClientMove) -> set[str]:
        return set()

    for name in ("_others", "_find_uncarried", "_members_there"):
        monkeypatch.setattr(ClientMove, name, none)

    def client(alias: str) -> Client:
        return Client(Cluster(alias=alias, bootstrap_servers=("127.0.0.1:1",), cluster_id=alias.upper()))

    def says(gateway: str, *lacks: str) -> dict[str, Any]:
        document = MovableGatewayDocument(gateway=gateway, described=gateway, serves="EAST", ports=1, lacks=lacks)
        return {document.key: document}

    async def story() -> tuple[list[str], list[str]]:
        source, target = client("east"), client("west")
        move = ClientMove(cast("Any", None), (), source, target, 1.0, is_forced=False, on_step=print)
        move._here.documents |= says("here")
        move._there.documents |= says("here") | says("gone", "CN=bills")
        before = await move._objections(())
        move._there.documents |= says("here", "CN=orders", "CN=app-*")
        after = await move._objections(())
        await source.aclose()
        await target.aclose()
        return before, after

    before, (after,) = asyncio.run(story())
    assert before == []
    assert "here has no login of west for clients with certificates of CN=orders, CN=app-*" in after
