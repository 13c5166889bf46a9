"""What a consumer at read_committed makes of the batches of one answer."""

from __future__ import annotations

import asyncio
import random
import struct
import uuid
from typing import Final, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.consumer import FetchRequest

from isthmus.errors import BrokerRefused, ClusterError, Unreachable
from isthmus.kafka.batches.batch import CONTROL, HEADER, TRANSACTIONAL, Batch, scan
from isthmus.kafka.log.holes import count_holes
from isthmus.kafka.log.listoffsets import READ_UNCOMMITTED
from isthmus.kafka.log.reading import LogReader, OffsetRange, committed_view, modern
from testing.records.stored import PLAIN, message_sets
from testing.records.stored import stored as kept
from testing.values.log import KEY, TOPIC, StoredLog

COMMIT: Final = 1
ABORT: Final = 0
PRODUCERS: Final = 3
MAGIC_AT: Final = 16


class Step(NamedTuple):
    """One batch of a log: data of a producer (plain when it is -1), or the end of its transaction."""

    producer: int
    records: int
    end: int | None = None


def stored(base: int, step: Step) -> bytes:
    """The bytes of a batch as a broker stores it; the records are of no interest here but for a marker's."""
    control = step.end is not None
    attributes = (TRANSACTIONAL if step.producer >= 0 else 0) | (CONTROL if control else 0)
    records = bytes([30, 0, 0, 0, 8]) + struct.pack(">hh", 0, step.end) + bytes(7) if step.end is not None else b""
    header = HEADER.pack(
        base, 49 + len(records), 0, 2, 0, attributes, step.records - 1, 0, 0, step.producer, 0, 0, step.records
    )
    return header + records


def log_of(steps: list[Step]) -> tuple[list[Batch], list[tuple[int, int, int]], list[bool]]:
    """The batches, the aborted transactions (producer, first offset, marker), and which batches belong to one."""
    batches: list[Batch] = []
    begun: dict[int, list[int]] = {}
    aborted: list[tuple[int, int, int]] = []
    is_aborted = [False] * len(steps)
    offset = 0
    for index, step in enumerate(steps):
        (batch,) = scan(stored(offset, step))
        batches.append(batch)
        if step.end is None and step.producer >= 0:
            begun.setdefault(step.producer, []).append(index)
        elif step.end is not None:
            members = begun.pop(step.producer, [])
            if step.end == ABORT and members:
                aborted.append((step.producer, batches[members[0]].base_offset, batch.base_offset))
                for member in members:
                    is_aborted[member] = True
        offset += step.records
    return batches, aborted, is_aborted


def steps() -> st.SearchStrategy[list[Step]]:
    """Logs in which producers' transactions overlap, every one ended in the end."""
    data = st.builds(Step, st.integers(-1, PRODUCERS - 1), st.integers(1, 4), st.none())
    end = st.builds(Step, st.integers(0, PRODUCERS - 1), st.just(1), st.sampled_from([COMMIT, ABORT]))
    endings = [Step(producer, 1, ABORT) for producer in range(PRODUCERS)]
    return st.lists(st.one_of(data, data, end), max_size=40).map(lambda some: some + endings)


@given(steps(), st.data())
def test_aborted_transactions_are_seen(log: list[Step], data: st.DataObject) -> None:
    """From any point of the log on, exactly the batches of aborted transactions are told to be that."""
    batches, aborted, expected = log_of(log)
    begin = data.draw(st.integers(0, len(batches) - 1))
    read = batches[begin:]
    # A broker lists the transactions that overlap what it sends, however early they began.
    told = [(producer, first) for producer, first, marker in aborted if marker >= read[0].base_offset]
    random.Random(len(log)).shuffle(told)

    assert [item.is_aborted for item in committed_view(read, told)] == expected[begin:]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", range(4))
def test_message_sets_tell_their_offsets(magic: int, codec: int) -> None:
    """A message set from before Kafka 0.11 is known by its messages: first, last, and how many."""
    found = [modern(batch) for batch in scan(message_sets(magic, codec, [PLAIN] * 5))]

    assert [offset for batch in found for offset in range(batch.base_offset, batch.offset_end)] == list(range(5))
    assert sum(batch.record_count for batch in found) == 5
    assert len(found) == (1 if codec else 5)


def test_range_reads_well() -> None:
    """A range is written the way messages to people show it."""
    assert str(OffsetRange("orders", 3, 10, 20)) == "orders-3 [10, 20)"
    assert OffsetRange("orders", 3, 10, 10).is_empty


async def read(log: StoredLog, end: int) -> list[Batch]:
    """Read the log up to there, without patience."""
    reader = LogReader(log, isolation=READ_UNCOMMITTED, stall_s=0)
    return [item.batch async for found in reader.read(OffsetRange(*KEY, 0, end)) for item in found]


def test_a_range_whose_end_the_cleaner_took_is_read() -> None:
    """The leader shows that the log goes on behind it, and no records from there on."""
    log = StoredLog([kept(0, [PLAIN] * 3), kept(6, [PLAIN])], end=7, shown=6)

    assert [batch.offset_end for batch in asyncio.run(read(log, 6))] == [3]
    assert asyncio.run(count_holes(log, KEY, 0, 6, stop_above=9)) == 3


def test_an_answer_without_records_ends_no_range_that_it_does_not_cover() -> None:
    """Its leader does not know yet how far the log is replicated, or its tier was too slow."""
    batches = [kept(0, [PLAIN] * 3), kept(6, [PLAIN])]
    for log in (StoredLog(batches, end=7, shown=5), StoredLog(batches, end=7, local_start=7, tier_ms=60_000)):
        with pytest.raises(Unreachable):
            asyncio.run(read(log, 7))


def test_a_topic_that_was_created_again_is_another_one() -> None:
    """What was read of the former one does not go on with its records; whoever begins again reads them."""
    log = StoredLog([kept(0, [PLAIN] * 3), kept(3, [PLAIN])], end=4)
    reader = LogReader(log, isolation=READ_UNCOMMITTED)

    async def look() -> list[Batch]:
        assert await reader.first_batch(OffsetRange(*KEY, 0, 4))
        log.topic_id = uuid.UUID(int=8)
        with pytest.raises(ClusterError, match="created again"):
            await reader.first_batch(OffsetRange(*KEY, 3, 4))
        return await reader.first_batches(OffsetRange(*KEY, 3, 4), 1)

    assert [batch.base_offset for batch in asyncio.run(look())] == [3]


def test_every_partition_of_a_topic_that_was_created_again_is_another_one() -> None:
    """One reader reads several: the first one that notices it does not hide it from the others."""
    log = StoredLog([kept(0, [PLAIN] * 3), kept(3, [PLAIN])], end=4, partitions=2)
    reader = LogReader(log, isolation=READ_UNCOMMITTED)

    async def look() -> None:
        for partition in (0, 1):
            assert await reader.first_batch(OffsetRange(TOPIC, partition, 0, 4))
        log.topic_id = uuid.UUID(int=8)
        for partition in (0, 1):
            with pytest.raises(ClusterError, match="created again"):
                await reader.first_batch(OffsetRange(TOPIC, partition, 3, 4))

    asyncio.run(look())


def test_a_topic_whose_former_id_was_only_named_is_read() -> None:
    """A broker that does not know yet that it was created again names it: nothing of the former one was read."""
    log = StoredLog([kept(0, [PLAIN])], end=1, named_first=uuid.UUID(int=6))
    reader = LogReader(log, isolation=READ_UNCOMMITTED)

    assert asyncio.run(reader.first_batch(OffsetRange(*KEY, 0, 1)))


def test_counting_holes_delays_no_other_request() -> None:
    """All of a log would be in the way of them, and brokers that throttle it mute its connection."""
    log = StoredLog([kept(0, [PLAIN] * 3)], end=3)

    assert asyncio.run(count_holes(log, KEY, 0, 3, stop_above=9)) == 0
    fetches = [each for each in log.asked if isinstance(each, FetchRequest)]
    assert fetches
    assert fetches == log.apart
    assert not log.open


@pytest.mark.parametrize("end", [4, 12])
def test_deleted_records_are_no_holes(end: int) -> None:
    """Retention may have moved the log start between the look at it and the count, even behind the range."""
    log = StoredLog([kept(5, [PLAIN] * 3), kept(9, [PLAIN] * 3)], start=5, end=12)

    assert asyncio.run(count_holes(log, KEY, 0, end, stop_above=3)) == (1 if end > 5 else 0)


def test_holes_of_a_log_that_cannot_be_read_are_not_counted() -> None:
    """Whoever counts them hears of it as of any other failure of a broker."""
    damaged = bytearray(kept(0, [PLAIN] * 7))
    damaged[MAGIC_AT] = 9
    log = StoredLog([bytes(damaged)], end=7)

    with pytest.raises(BrokerRefused, match="no records"):
        asyncio.run(count_holes(log, KEY, 0, 7, stop_above=9))
