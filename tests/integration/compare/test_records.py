"""What counts as equal: batches made anew, transactions, timestamps of the broker, compaction, real mirrors."""

from __future__ import annotations

import random

import pytest

from isthmus.kafka.batches.records import encode_records
from isthmus.spark.compare.links import DiscrepancyKind
from testing.records import oracle, topics, transactions
from testing.records.forgery import built
from testing.records.pair import RECORDS, Pair, found, records, without
from testing.runs.mirror import Mirror

pytestmark = pytest.mark.integration


def test_kinds_of_logs(pair: Pair) -> None:
    """Batches may differ where records do not; timestamps, visibility and offsets may not."""
    anew, stamped, kept, leaked, piled = (
        pair.topic("anew"),
        pair.topic("stamped", message_timestamp_type="LogAppendTime"),
        pair.topic("kept", message_timestamp_type="LogAppendTime"),
        pair.topic("leaked"),
        pair.topic("piled"),
    )
    pair.produce(anew, compression_type="lz4")
    for name in (stamped, kept, piled):
        pair.produce(name)
    writer = transactions.TransactionalProducer(pair.source, leaked)
    for commit in (True, False, True):
        writer.send(leaked, [topics.Given(None, b"%d" % n, [], topics.SEPTEMBER) for n in range(10)])
        writer.end(commit=commit)
    pair.forge(anew, anew=True)
    pair.forge(stamped)
    pair.forge(kept, anew=True)
    pair.forge(leaked)
    pair.append(pair.target, piled, built(records(), same_offset=True))

    verdicts = pair.verify(anew, stamped, kept, leaked, piled)

    assert verdicts[anew].is_equal
    assert verdicts[kept].is_equal
    assert found(verdicts[stamped]) == [(DiscrepancyKind.DIFFERENT, 0, RECORDS)]
    assert verdicts[stamped].partitions[0].findings[0].fields == ("timestamp",)
    # Offset 10 is the first marker, the aborted records follow it.
    assert found(verdicts[leaked]) == [(DiscrepancyKind.DIFFERENT, 11, 21)]
    assert verdicts[leaked].partitions[0].findings[0].fields == ("visibility",)
    assert verdicts[leaked].records == 30
    assert found(verdicts[piled]) == [(DiscrepancyKind.MISSING, 1, RECORDS), (DiscrepancyKind.EXTRA, 0, 1)]


def test_cleaners_work_when_they_like(pair: Pair) -> None:
    """In a compacted topic an obsolete record may be gone at one side; a key's last record may not."""
    obsolete, lost, plain = (
        pair.topic("obsolete", cleanup_policy="compact"),
        pair.topic("lost", cleanup_policy="compact"),
        pair.topic("plain"),
    )
    for name in (obsolete, lost, plain):
        pair.produce(name)
    # The last record deletes a key of which there was nothing; the one before is the last of its key.
    pair.forge(obsolete, without(3, 4, 50, RECORDS - 1))
    pair.forge(lost, without(3, RECORDS - 2))
    pair.forge(plain, without(3))

    verdicts = pair.verify(obsolete, lost, plain)

    assert verdicts[obsolete].is_equal
    assert verdicts[obsolete].cleaned == 4
    assert found(verdicts[lost]) == [(DiscrepancyKind.MISSING, RECORDS - 2, RECORDS - 1)]
    assert verdicts[lost].cleaned == 1
    assert found(verdicts[plain]) == [(DiscrepancyKind.MISSING, 3, 4)]


def test_real_mirror_is_equal(pair: Pair, mirror: Mirror, chance: random.Random) -> None:
    """What the lanes copy is equal: overlapping transactions, batches of one record, every codec."""
    transactional, tiny, mixed = pair.topic("transactional"), pair.topic("tiny"), pair.topic("mixed")
    transactions.interleave(pair.source, transactional, chance, steps=40)
    pair.produce(tiny, batch_num_messages=1)
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        given = topics.some(200, chance)
        topics.produce(pair.source, mixed, given, compression_type=codec)
    mirror.copy(transactional, tiny, mixed)

    verdicts = pair.verify(transactional, tiny, mixed)

    assert {name: found(verdict) for name, verdict in verdicts.items()} == {transactional: [], tiny: [], mixed: []}
    assert verdicts[mixed].records == 5 * 200


def test_header_keys_that_are_no_utf_8(pair: Pair, mirror: Mirror) -> None:
    """Such records are joined, split and compared as others are: their keys stay the bytes they were."""
    name = pair.topic("odd", at_target=False)
    topics.create(pair.target, name, max_message_bytes=2000)
    key = b"\xff\xfe\x80".decode(errors="surrogateescape")
    single = [(topics.SEPTEMBER + n, b"k", b"%d" % n, [(key, b"x"), ("h", None)]) for n in range(20)]
    large = [(topics.SEPTEMBER, None, bytes(300), [(key, None)])] * 10
    for batch in ([record] for record in single):
        pair.append(pair.source, name, encode_records(batch))
    pair.append(pair.source, name, encode_records(large))

    mirror.copy(name)

    stored = b"".join(
        path.read_bytes() for path in sorted((pair.target.broker(1).folder / "data" / f"{name}-0").glob("*.log"))
    )
    assert stored.count(b"\x06\xff\xfe\x80") == 30
    assert pair.verify(name)[name].is_equal
    here, there = (
        oracle.printed_records(cluster.admin_bootstrap_servers, name, "read_committed", count=30)
        for cluster in (pair.source, pair.target)
    )
    assert there == here
    # One that differs in nothing but such a byte is told.
    pair.append(pair.source, name, encode_records(single[:1]))
    other = b"\xff\xfe\x81".decode(errors="surrogateescape")
    pair.append(pair.target, name, encode_records([(single[0][0], b"k", b"0", [(other, b"x"), ("h", None)])]))
    assert found(pair.verify(name)[name]) == [(DiscrepancyKind.DIFFERENT, 30, 31)]
    assert pair.verify(name)[name].partitions[0].findings[0].fields == ("headers",)
