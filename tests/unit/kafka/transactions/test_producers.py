"""What leaders report of the producers of their partitions."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from isthmus.errors import BrokerRefused
from isthmus.kafka import codes
from isthmus.kafka.transactions.producers import producers_of
from testing.values.log import KEY, StoredLog


class Describing(StoredLog):
    """A leader that answers with these partitions, each with one producer."""

    def __init__(self, *partitions: tuple[int, int]) -> None:
        super().__init__([], end=0)
        self._partitions = partitions

    async def _call(self, request: Any, **_: Any) -> Any:
        producer = SimpleNamespace(
            producer_id=7, producer_epoch=0, coordinator_epoch=-1, current_txn_start_offset=3, last_sequence=4
        )
        described = [
            SimpleNamespace(partition_index=number, error_code=code, active_producers=[producer])
            for number, code in self._partitions
        ]
        return SimpleNamespace(topics=[SimpleNamespace(name=KEY[0], partitions=described)])


def test_a_partition_that_an_answer_leaves_out_may_have_an_open_transaction() -> None:
    """Whoever aborts what a lost source left open would miss it: no answer is no proof."""
    found = asyncio.run(producers_of(Describing((1, codes.NONE)), [KEY]))

    assert not found.values
    assert isinstance(found.errors[KEY], BrokerRefused)


def test_a_partition_without_a_leader_or_with_an_error_has_it() -> None:
    """Each has an error of its own, and those of others stay what they are."""
    without = (KEY[0], 5)
    for code in (codes.NONE, codes.NOT_LEADER_OR_FOLLOWER):
        found = asyncio.run(producers_of(Describing((KEY[1], code)), [KEY, without]))

        assert [each.transaction_start for each in found.values.get(KEY, ())] == ([3] if code == codes.NONE else [])
        told = {key: error.code for key, error in found.errors.items() if isinstance(error, BrokerRefused)}
        assert told == {without: codes.UNKNOWN_TOPIC_OR_PARTITION} | ({KEY: code} if code else {})
