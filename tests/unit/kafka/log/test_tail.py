"""What an answer says of a single offset, and when it says nothing."""

from __future__ import annotations

import asyncio
import uuid
from types import SimpleNamespace
from typing import Any, Final

import pytest

from isthmus.kafka import codes
from isthmus.kafka.batches.batch import Batch
from isthmus.kafka.log import tail as module
from isthmus.kafka.log.fetch import Fetched, Want
from isthmus.kafka.log.tail import NoBatch, Read, batches_at, batches_before, found_in
from testing.records.stored import PLAIN, stored
from testing.values.log import KEY, StoredLog

RECORDS: Final = [PLAIN._replace(value=b"%d" % n) for n in range(6)]


def fetched(
    *, code: int = codes.NONE, high_watermark: int = -1, log_start: int = -1, records: bytes = b""
) -> Fetched[str]:
    """An answer about offset 13."""
    return Fetched(KEY, 13, code, high_watermark, log_start, -1, [], records, high_watermark)


def test_what_a_log_says_of_an_offset() -> None:
    """A batch, or that there is none although the log goes on behind; where it does not, nobody can tell."""
    batch = found_in(fetched(high_watermark=16, log_start=0, records=stored(10, RECORDS)))
    assert isinstance(batch, Batch)
    assert batch.base_offset == 10
    assert found_in(fetched(high_watermark=14, log_start=13)) is NoBatch.HOLE
    assert found_in(fetched(high_watermark=16, log_start=0, records=stored(10, RECORDS)[:-1])) is None
    # A leader that was just elected does not know yet how far everything is replicated.
    assert found_in(fetched(high_watermark=13, log_start=0)) is None
    # At read_committed nothing behind the stable end is shown, whatever is there.
    assert found_in(fetched(high_watermark=16, log_start=0)._replace(stable_end=13)) is None
    assert found_in(fetched(high_watermark=16, log_start=0)._replace(stable_end=-1)) is NoBatch.HOLE
    assert found_in(fetched(code=codes.OFFSET_OUT_OF_RANGE)) is None
    assert found_in(fetched(code=codes.NOT_LEADER_OR_FOLLOWER)) is None


@pytest.mark.parametrize("code", [codes.NOT_LEADER_OR_FOLLOWER, codes.TOPIC_AUTHORIZATION_FAILED, codes.NONE])
def test_an_error_is_no_batch(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """Whatever came with it: what a broker says that does not lead the partition counts for nothing."""
    answer = fetched(code=code, high_watermark=16, log_start=0, records=stored(10, RECORDS))

    async def read(*_: object, **__: object) -> list[Fetched[str]]:
        return [answer]

    monkeypatch.setattr(module, "fetch_once", read)
    connection: Any = SimpleNamespace(cluster="nowhere", where="nowhere")
    found = asyncio.run(batches_at(connection, {answer.key: Want(uuid.uuid4(), 13, 0, -1)}))

    assert isinstance(found[answer.key], Read) is (code == codes.NONE)


@pytest.mark.parametrize(("tier_ms", "is_read"), [(0, True), (500, True), (60_000, False)])
def test_what_a_tier_does_not_return_in_time_is_no_hole(tier_ms: int, is_read: bool) -> None:
    """The leader answers without records and without an error then, whatever the tier has (KIP-405)."""
    log = StoredLog([stored(0, RECORDS), stored(8, RECORDS)], end=14, local_start=8, tier_ms=tier_ms)

    found = asyncio.run(batches_before(log, {KEY: 6}))

    assert [each.offset_end for each in found.values() if isinstance(each, Batch)] == ([6] if is_read else [])
    assert is_read or not found


def test_a_hole_is_one_on_the_disks_of_the_leader() -> None:
    """The cleaner took the last batch before an open transaction, which the leader does not show."""
    log = StoredLog([stored(0, RECORDS), stored(8, RECORDS)], end=14, local_start=6, shown=8, tier_ms=60_000)

    assert asyncio.run(batches_before(log, {KEY: 7})) == {KEY: NoBatch.HOLE}


def test_a_leader_that_sends_its_readers_elsewhere_shows_no_hole() -> None:
    """Its answer has no records, whatever the log has (KIP-392)."""
    assert not asyncio.run(batches_before(StoredLog([stored(0, RECORDS)], end=6, preferred=2), {KEY: 6}))
