"""Transactions driven against a coordinator that does not answer as it should."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

from isthmus.cluster.transaction import Transaction
from isthmus.wire import codes
from tests.unit.ledger.brokers import Answering


def test_a_broker_that_stumbles_is_asked_again() -> None:
    """UNKNOWN_SERVER_ERROR does not tell whether a transaction ended: the same is asked until it is known."""
    client = Answering(SimpleNamespace(error_code=code) for code in (codes.UNKNOWN_SERVER_ERROR, codes.NONE))
    transaction = Transaction(client, "isthmus.link.declaration")
    asyncio.run(transaction.end(commit=True))
    assert len(client.asked) == 2
    assert client.asked[0] is client.asked[1]
    assert not transaction.is_open
