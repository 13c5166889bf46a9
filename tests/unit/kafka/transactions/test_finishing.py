"""Whether a transaction that was prepared is known to be committed, by what one of its partitions has."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from isthmus.kafka import codes
from isthmus.kafka.batches.aborted import COMMIT
from isthmus.kafka.client import Client
from isthmus.kafka.log.fetch import Want
from isthmus.kafka.log.listoffsets import PartitionKey
from isthmus.kafka.outcomes import Outcomes
from isthmus.kafka.transactions import finishing
from isthmus.model.gateways.prepared import PreparedPart
from isthmus.model.kafka.log import LogRange
from isthmus.model.kafka.transactions import lone_producer_id

PART = PreparedPart("orders", 0, 2, 9)
KEY = PART.topic, PART.partition


@pytest.mark.parametrize(("start", "is_committed"), [(0, True), (2, True), (6, True), (8, False), (20, False)])
def test_what_retention_has_taken_before_a_transaction_is_not_needed(
    start: int, is_committed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may begin far behind where somebody else's began: as long as records of it are there, its end counts."""
    own = lone_producer_id(5)
    log = [
        SimpleNamespace(base_offset=at, offset_end=at + 1, producer_id=producer_id, is_control=is_control)
        for at, producer_id, is_control in (
            (2, 1, False),
            (3, 1, False),
            (7, own, False),
            (8, 1, False),
            (9, own, True),
        )
    ]

    async def fetch_once(_: object, wants: Mapping[PartitionKey, Want], **__: Any) -> list[Any]:
        at = wants[KEY].offset
        is_there = start <= at <= 10
        return [SimpleNamespace(error_code=codes.NONE if is_there else codes.OFFSET_OUT_OF_RANGE, records=b"")]

    async def log_ranges(*_: object, **__: object) -> Outcomes[PartitionKey, LogRange]:
        return Outcomes({KEY: LogRange(start, max(start, 10), max(start, 10))}, {})

    async def metadata(_: object) -> Any:
        return SimpleNamespace(topics={PART.topic: SimpleNamespace(topic_id=None)})

    async def connection(_: int) -> None:
        """Somebody leads it."""

    monkeypatch.setattr(finishing, "fetch_once", fetch_once)
    monkeypatch.setattr(finishing, "log_ranges", log_ranges, raising=False)
    monkeypatch.setattr(finishing, "leaders_of", lambda *_: ({1: {KEY: 0}}, {}))
    monkeypatch.setattr(finishing, "control_type", lambda _: COMMIT)
    monkeypatch.setattr(
        finishing, "_scan_batches", lambda _, at: [each for each in log if each.offset_end > at and at >= start]
    )
    client = cast(
        Client, SimpleNamespace(metadata=metadata, connection=connection, cluster=SimpleNamespace(alias="west"))
    )

    assert asyncio.run(finishing._is_committed(client, PART, 5)) is is_committed
