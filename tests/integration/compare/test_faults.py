"""The verification finds every planted fault, and nothing else. All faults are planted first and found by one run."""

from __future__ import annotations

import random
import secrets
from collections.abc import Callable
from typing import Final

import pytest
from pyspark.sql import SparkSession

from isthmus.local import LocalCluster
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.spark.compare.links import Discrepancy, DiscrepancyKind, TopicVerdict, Verdict, verify
from testing.records import topics
from testing.records.forgery import MARKER, Record, Tamper, forge, honest

RECORDS: Final = 300
AT: Final = 137
NULLS: Final = 200
"""The offset of a record without key and value."""
LAST: Final = RECORDS - 1
REST: Final = RECORDS - AT
"""How many records there are from the tampered one on."""


def at(change: Callable[[Record], Record], offset: int = AT) -> Tamper:
    """Change one record."""

    def tamper(base: int, records: list[Record]) -> list[Record]:
        return [change(record) if base + delta == offset else record for delta, record in enumerate(records)]

    return tamper


def around(change: Callable[[list[Record], int], list[Record]]) -> Tamper:
    """Change the batch that holds offset `AT`, given the record's place in it."""

    def tamper(base: int, records: list[Record]) -> list[Record]:
        place = AT - base
        return change(records, place) if 0 <= place < len(records) else records

    return tamper


def swap(records: list[Record], place: int) -> list[Record]:
    # The first offset of a batch has its successor to swap with, all others their predecessor.
    other = place - 1 if place else 1
    records[place], records[other] = records[other], records[place]
    return records


def different(*fields: str, begin: int = AT, records: int = 1) -> Discrepancy:
    return Discrepancy(
        kind=DiscrepancyKind.DIFFERENT, offset_begin=begin, offset_end=begin + records, records=records, fields=fields
    )


def missing(begin: int, records: int = 1) -> Discrepancy:
    return Discrepancy(kind=DiscrepancyKind.MISSING, offset_begin=begin, offset_end=begin + records, records=records)


def extra(begin: int, records: int = 1) -> Discrepancy:
    return Discrepancy(kind=DiscrepancyKind.EXTRA, offset_begin=begin, offset_end=begin + records, records=records)


ALL: Final = ("key", "value", "headers", "timestamp")
# What is done to the target, and the findings that have to come of it.
PLANTED: Final[dict[str, tuple[Tamper, list[Discrepancy]]]] = {
    "nothing": (honest, []),
    "hole": (around(lambda records, i: [*records[:i], MARKER, *records[i + 1 :]]), [missing(AT)]),
    "dropped": (
        around(lambda records, i: records[:i] + records[i + 1 :]),
        [missing(LAST), different(*ALL, records=REST - 1)],
    ),
    "doubled": (
        around(lambda records, i: [*records[: i + 1], *records[i:]]),
        [extra(RECORDS), different(*ALL, begin=AT + 1, records=REST - 1)],
    ),
    "swapped": (around(swap), [different(*ALL, begin=AT - 1, records=2)]),
    "byte": (at(lambda r: r._replace(value=b"V" + (r.value or b"")[1:])), [different("value")]),
    "key": (at(lambda r: r._replace(key=b"K")), [different("key")]),
    "timestamp": (at(lambda r: r._replace(timestamp=r.timestamp + 1)), [different("timestamp")]),
    "headers reordered": (at(lambda r: r._replace(headers=r.headers[::-1])), [different("headers")]),
    "header dropped": (at(lambda r: r._replace(headers=r.headers[1:])), [different("headers")]),
    "header value emptied": (
        at(lambda r: r._replace(headers=tuple((k, v or b"") for k, v in r.headers))),
        [different("headers")],
    ),
    "null key emptied": (at(lambda r: r._replace(key=b""), NULLS), [different("key", begin=NULLS)]),
    "null value emptied": (at(lambda r: r._replace(value=b""), NULLS), [different("value", begin=NULLS)]),
}


@pytest.fixture(scope="module")
def planted(east: LocalCluster, west: LocalCluster) -> dict[str, str]:
    """A topic for every planted fault, in its order."""
    seed = secrets.randbits(32)
    print(f"seed {seed}")  # noqa: T201  # pytest shows it with a failure only
    return {name: _plant(east, west, tamper, random.Random(seed)) for name, (tamper, _) in PLANTED.items()}


def _plant(east: LocalCluster, west: LocalCluster, tamper: Tamper, chance: random.Random) -> str:
    topic = f"planted-{secrets.token_hex(4)}"
    topics.create_both(east, west, topic)
    given = [
        topics.Given(
            None if index == NULLS else b"key-%d" % index,
            None if index == NULLS else b"value %d " % index + chance.randbytes(40),
            [("b", b"%d" % index), ("a", None), ("b", b"again")],
            topics.SEPTEMBER + index,
        )
        for index in range(RECORDS)
    ]
    topics.produce(east, topic, given, batch_num_messages=40)
    forge(east, west, topic, tamper)
    return topic


@pytest.fixture(scope="module")
def verdict(planted: dict[str, str], spark: SparkSession, east: LocalCluster, west: LocalCluster) -> Verdict:
    """One verification of all the topics."""
    return verify(
        spark, east.cluster(), west.cluster(), {SourceTopic(topic): TargetTopic(topic) for topic in planted.values()}
    )


def _of(verdict: Verdict, topic: str) -> TopicVerdict:
    return next(one for one in verdict.topics if one.source_topic == topic)


@pytest.mark.integration
@pytest.mark.parametrize("name", PLANTED)
def test_planted_fault_is_found_and_named(name: str, planted: dict[str, str], verdict: Verdict) -> None:
    """Exactly the offsets that were tampered with are reported, and what differs there."""
    found = _of(verdict, planted[name])
    (partition,) = found.partitions

    assert list(partition.findings) == PLANTED[name][1]
    assert partition.records == RECORDS
    assert found.is_equal == (not PLANTED[name][1])
