"""Whether a follower has what its source has before an offset, told by the last record, whatever ends behind it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest

from isthmus.control.links import sameness
from isthmus.model.transactions import lone_producer_id
from isthmus.wire.batch import Batch
from isthmus.wire.offsets import PartitionKey
from tests.unit.wire.stored import PLAIN, marker, one, stored

KEY = ("orders", 0)
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

    async def batches_before(client: Any, ends: Mapping[PartitionKey, int]) -> dict[PartitionKey, Batch]:
        found = {key: [each for each in logs[client] if each.offset_end >= at] for key, at in ends.items() if at > 0}
        return {key: each[0] for key, each in found.items() if each}

    monkeypatch.setattr(sameness, "batches_before", batches_before)
    ends = {KEY: (KEY, len(target))}
    told = asyncio.run(sameness.same_before(cast("Any", "source"), cast("Any", "target"), ends))
    assert told.get(KEY) is is_same
