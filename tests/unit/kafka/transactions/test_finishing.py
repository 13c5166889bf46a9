"""Whether a transaction that was prepared is known to be committed, by what one of its partitions has."""

from __future__ import annotations

import asyncio
from typing import Final

import pytest

from isthmus.kafka.transactions import finishing
from isthmus.model.gateways.prepared import PreparedPart
from isthmus.model.kafka.transactions import lone_producer_id
from isthmus.model.naming import TargetTopic
from testing.records.stored import PLAIN, marker, stored
from testing.values.log import KEY, StoredLog

PART: Final = PreparedPart(TargetTopic(KEY[0]), KEY[1], 2, 9)
FEW: Final = 6
"""Requests until all that the leader shows was read: three for where the log lies, and some for records."""
OWN: Final = lone_producer_id(5)
LOG: Final = [
    *(stored(at, [PLAIN], producer_id=1, transactional=True) for at in (2, 3)),
    stored(7, [PLAIN], producer_id=OWN, transactional=True),
    stored(8, [PLAIN], producer_id=1, transactional=True),
    marker(9, OWN, commit=True),
]


@pytest.mark.parametrize(("start", "is_committed"), [(0, True), (2, True), (6, True), (8, False), (20, False)])
def test_what_retention_has_taken_before_a_transaction_is_not_needed(start: int, is_committed: bool) -> None:
    """It may begin far behind where somebody else's began: as long as records of it are there, its end counts."""
    log = StoredLog(LOG, start=start, end=max(start, 10))

    assert asyncio.run(finishing._is_committed(log, PART, 5)) is is_committed


def test_a_leader_that_does_not_show_the_end_yet_proves_no_abort() -> None:
    """It was just elected: its empty answer comes without an error (KIP-207), and the commit may be behind it."""
    log = StoredLog(LOG, end=10, shown=9)

    async def look() -> bool:
        looking = asyncio.create_task(finishing._is_committed(log, PART, 5))
        while len(log.asked) < FEW:
            await asyncio.sleep(0)
        assert not looking.done()
        log.shown = 10
        return await looking

    assert asyncio.run(look())
