"""What a gateway asks the cluster that clients came to."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

from isthmus.errors import NotAuthorized
from isthmus.gateway import arriving
from isthmus.gateway.arriving import resolve_doubts
from isthmus.gateway.frames.serving import Serving
from isthmus.model.gateways.carriedtransactions import CarriedTransaction, CarriedTransactions, WithinVerdict
from tests.unit.gateway.passages import run, until


@pytest.mark.parametrize(("hidden", "shown"), [("orders", "payments"), ("payments", "orders")])
def test_a_transactional_id_that_is_not_shown(hidden: str, shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who has another one is answered."""
    known = {each: CarriedTransaction(each, 5, 1, is_committed=True) for each in (hidden, shown)}
    transactions = CarriedTransactions(known.values(), stay=1)
    gateway = SimpleNamespace(
        client=SimpleNamespace(cluster=SimpleNamespace(alias="west")), serving=Serving(transactions=transactions)
    )

    async def told(_: object, transactional_id: str) -> tuple[int, int]:
        if transactional_id == hidden:
            raise NotAuthorized("DESCRIBE is missing", cluster="west")
        return -1, -1

    def judged(name: str) -> WithinVerdict:
        return transactions.judge_commit(known[name], time.monotonic())

    async def story() -> None:
        monkeypatch.setattr(arriving, "producer_of", told)
        asked = asyncio.create_task(resolve_doubts(cast(Any, gateway)))
        try:
            assert [judged(each) for each in known] == [WithinVerdict.DOUBTED] * 2
            await until(lambda: judged(shown) is WithinVerdict.COMMITTED)
            await until(lambda: judged(hidden) is WithinVerdict.HERE)
        finally:
            asked.cancel()
            await asyncio.gather(asked, return_exceptions=True)

    run(story())
