"""Transactions driven against a coordinator that does not answer as it should."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from isthmus.errors import BrokerRefused
from isthmus.kafka import codes
from isthmus.kafka.transactions.transaction import Transaction
from testing.values.brokers import Answering


def test_a_broker_that_stumbles_is_asked_again() -> None:
    """UNKNOWN_SERVER_ERROR does not tell whether a transaction ended: the same is asked until it is known."""
    client = Answering(SimpleNamespace(error_code=code) for code in (codes.UNKNOWN_SERVER_ERROR, codes.NONE))
    transaction = Transaction(client, "isthmus.link.declaration")
    asyncio.run(transaction.end(commit=True))
    assert len(client.asked) == 2
    assert client.asked[0] is client.asked[1]
    assert not transaction.is_open


def test_a_coordinator_that_is_not_there_yet_is_waited_for() -> None:
    """Where nobody used transactions before, brokers know no coordinator until their log is created; whoever was one
    already finds out what became of its own instead.
    """
    away = BrokerRefused("away", code=codes.COORDINATOR_NOT_AVAILABLE, name="", cluster="nowhere")
    there = SimpleNamespace(error_code=codes.NONE, producer_id=41, producer_epoch=3)
    transaction = Transaction(Answering([away, away, there, away]), "isthmus.link.declaration")
    asyncio.run(transaction.initialize())
    assert (transaction.producer_id, transaction.epoch) == (41, 3)
    with pytest.raises(BrokerRefused):
        asyncio.run(transaction.initialize(is_mine=True))


def test_the_end_of_a_transaction_outlasts_an_election() -> None:
    """A coordinator that is not elected for some seconds does not leave the tasks of a sink committed in part."""
    away = BrokerRefused("away", code=codes.COORDINATOR_NOT_AVAILABLE, name="", cluster="nowhere")
    transaction = Transaction(Answering([away, away, SimpleNamespace(error_code=codes.NONE)]), "id", outlasts=True)
    transaction.adopt(41, 3)
    asyncio.run(transaction.end(commit=True))
    assert not transaction.is_open
    fenced = BrokerRefused("fenced", code=codes.PRODUCER_FENCED, name="", cluster="nowhere")
    with pytest.raises(BrokerRefused):
        asyncio.run(Transaction(Answering([fenced]), "id", outlasts=True).end(commit=True))
