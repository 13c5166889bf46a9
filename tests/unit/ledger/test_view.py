"""Following a ledger from look to look, by what brokers answer."""

from __future__ import annotations

import pytest

from isthmus.errors import Unreachable
from isthmus.ledger.view import LedgerView
from tests.unit.ledger.brokers import Answering, asking


def test_who_does_not_answer_is_asked_once() -> None:
    """Only a connection that was held may be a stale one; without one nobody waits twice."""

    async def look(client: Answering) -> None:
        with pytest.raises(Unreachable):
            await LedgerView(client).look()
        assert len(client.asked) == 1

    asking([Unreachable("gone", cluster="nowhere")] * 2, look)
