"""Whether a follower has what its source has before an offset, told by the last record, whatever ends behind it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, cast

import pytest

from isthmus.kafka.batches.batch import Batch
from isthmus.kafka.log.listoffsets import PartitionKey
from isthmus.kafka.log.tail import NoBatch
from isthmus.model.kafka.transactions import lone_producer_id
from isthmus.model.naming import SourceTopicPartition
from isthmus.synchronous import sameness
from testing.records.stored import PLAIN, marker, one, stored

KEY: tuple[Any, int] = ("orders", 0)
OTHER = PLAIN._replace(value=b"other")


def plain(at: int, *, other: bool = False) -> Batch:
    """A record."""
    return one(stored(at, [OTHER if other else PLAIN]))


def within(at: int, producer: int, *, other: bool = False) -> Batch:
    """A record of a transaction."""
    return one(stored(at, [OTHER if other else PLAIN], producer_id=producer, transactional=True))


def end(at: int, producer: int, *, commit: bool = True) -> Batch:
    """The end of one."""
    return one(marker(at, producer, commit=commit))


LONE = lone_producer_id(1)


@pytest.mark.parametrize(
    ("source", "target", "is_same"),
    [
        ([plain(0)], [plain(0)], True),
        ([plain(0)], [plain(0, other=True)], False),
        # The follower has what the source had before it was made anew.
        ([within(0, 1), end(1, 1)], [plain(0), plain(1)], False),
        ([within(0, 1), end(1, 1)], [within(0, LONE), end(1, LONE)], True),
        ([within(0, 1), end(1, 1)], [within(0, LONE, other=True), end(1, LONE)], False),
        ([within(0, 1), end(1, 1)], [plain(0, other=True), end(1, 7)], False),
        ([within(0, 1), end(1, 1)], [plain(0), end(1, 7)], True),
        ([within(0, 1), end(1, 1)], [within(0, LONE), end(1, lone_producer_id(2))], False),
        ([within(0, 1), end(1, 1)], [within(0, LONE), end(1, LONE, commit=False)], False),
        # Ends of several, one behind the other.
        ([plain(0), *(end(at, at) for at in range(1, 4))], [plain(0), *(end(at, 7) for at in range(1, 4))], True),
        (
            [plain(0), *(end(at, at) for at in range(1, 4))],
            [plain(0, other=True), *(end(at, 7) for at in (1, 2, 3))],
            False,
        ),
        # What was aborted may have been left out: what stands before it tells.
        ([plain(0), within(1, 1), end(2, 1, commit=False)], [plain(0), end(1, 7), end(2, 7, commit=False)], True),
        (
            [plain(0), within(1, 1), end(2, 1, commit=False)],
            [plain(0, other=True), end(1, 7), end(2, 7, commit=False)],
            False,
        ),
        ([end(0, 1)], [end(0, 7)], True),
        ([plain(1)], [plain(0), plain(1)], True),
        # Nothing tells.
        ([plain(3)], [plain(0), plain(1)], None),
    ],
)
def test_what_stands_before_an_end(
    source: Sequence[Batch], target: Sequence[Batch], is_same: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside transactions, which may be there in another way, each record is the source's."""
    logs = {"source": source, "target": target}
    assert compared(logs, len(target), monkeypatch) == {KEY: is_same}


@pytest.mark.parametrize("side", ["source", "target"])
@pytest.mark.parametrize(
    ("log", "readable_from", "told"),
    [
        ([plain(0), end(1, 1)], 1, {}),
        ([plain(0), end(1, 1)], 2, {}),
        # What the log has no more tells nothing.
        ([end(1, 1)], 0, {KEY: True}),
        ([], 0, {KEY: None}),
    ],
)
def test_what_cannot_be_read_is_not_taken_for_alike(
    side: str,
    log: Sequence[Batch],
    readable_from: int,
    told: Mapping[PartitionKey, bool],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The ends of two transactions are alike, and behind other records: it is asked again once the leader answers."""
    logs = {"source": [plain(0), end(1, 1)], "target": [plain(0, other=True), end(1, 7)], side: log}
    assert compared(logs, 2, monkeypatch, {side: readable_from}) == told


def compared(
    logs: Mapping[str, Sequence[Batch]],
    at: int,
    monkeypatch: pytest.MonkeyPatch,
    readable_from: Mapping[str, int] = MappingProxyType({}),
) -> Mapping[SourceTopicPartition, bool | None]:
    """What is told of logs of which one can be read from some offset on."""

    async def batches_before(client: Any, ends: Mapping[PartitionKey, int]) -> dict[PartitionKey, Batch | NoBatch]:
        return {
            key: next((each for each in logs[client] if each.offset_end >= at), NoBatch.DELETED)
            for key, at in ends.items()
            if at > readable_from.get(client, 0)
        }

    monkeypatch.setattr(sameness, "batches_before", batches_before)
    return asyncio.run(sameness.same_before(cast("Any", "source"), cast("Any", "target"), {KEY: (KEY, at)}))
