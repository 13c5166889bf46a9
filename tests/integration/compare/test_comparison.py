"""The comparison as Spark runs it, held against a plain one over thousands of random pairs of logs."""

from __future__ import annotations

import random
import secrets
from collections import Counter
from typing import Final, NamedTuple

import pytest
from pyspark.sql import DataFrame, SparkSession

from isthmus.model.links.verdict import DiscrepancyKind
from isthmus.spark.compare.links import comparison
from isthmus.spark.compare.links.assembly import CLEANED, LEFT_OUT

pytestmark = pytest.mark.integration

CASES: Final = 1000
OFFSETS: Final = 12
ALL: Final = 1000


class Row(NamedTuple):
    """A record as `KEYED_RECORD_FIELDS` has it, without its range."""

    offset: int
    timestamp_ms: int
    is_aborted: bool
    digest: bytes
    key_digest: bytes | None
    is_tombstone: bool


Log = list[Row]


def some_log(chance: random.Random) -> Log:
    """A log with holes now and then, of few keys."""
    return [some_row(chance, offset) for offset in range(OFFSETS) if chance.random() < 0.9]


def some_row(chance: random.Random, offset: int) -> Row:
    key = chance.choice([b"a", b"b", b"c", None])
    return Row(offset, chance.randrange(2), chance.random() < 0.1, chance.randbytes(2), key, chance.random() < 0.2)


def damaged(chance: random.Random, log: Log) -> Log:
    """The log with up to three faults: a record gone, doubled, changed or new."""
    log = list(log)
    for _ in range(chance.randrange(4)):
        place = chance.randrange(len(log) + 1)
        fault = chance.randrange(4)
        if fault == 0:
            log[place : place + 1] = []
        elif fault == 1:
            log[place:place] = log[place : place + 1]
        elif fault == 2:
            log[place : place + 1] = [some_row(chance, row.offset) for row in log[place : place + 1]]
        else:
            log.append(some_row(chance, chance.randrange(OFFSETS)))
    return log


def differences(source: Log, target: Log) -> dict[int, DiscrepancyKind]:
    """What `comparison.differences` is to find, counted record by record."""
    missing, extra = Counter(source) - Counter(target), Counter(target) - Counter(source)
    kinds: dict[int, DiscrepancyKind] = {row.offset: DiscrepancyKind.MISSING for row in missing}
    for row in extra:
        kinds[row.offset] = (
            DiscrepancyKind.DIFFERENT
            if row.offset in kinds and kinds[row.offset] != DiscrepancyKind.EXTRA
            else DiscrepancyKind.EXTRA
        )
    return kinds


def without_cleaned(source: Log, target: Log) -> dict[int, str]:
    """What `comparison.differences_of_keys` is to find: a record alone at its offset may be obsolete."""
    found: dict[int, str] = dict(differences(source, target))
    for offset, kind in found.items():
        lacking = target if kind == DiscrepancyKind.MISSING else source
        rows = [row for row in source + target if row.offset == offset]
        if len(rows) == 1 and obsolete(rows[0], lacking):
            found[offset] = CLEANED
    return found


def obsolete(row: Row, lacking: Log) -> bool:
    if row.is_aborted:
        return True
    same_key = [other.offset for other in lacking if other.key_digest == row.key_digest and row.key_digest is not None]
    later = any(offset > row.offset for offset in same_key)
    return later or (row.is_tombstone and not any(offset <= row.offset for offset in same_key))


@pytest.fixture(scope="module")
def logs() -> list[tuple[Log, Log]]:
    """Pairs of logs, each a slice of its own."""
    seed = secrets.randbits(32)
    print(f"seed {seed}")  # noqa: T201  # pytest shows it with a failure only
    chance = random.Random(seed)
    sources = [some_log(chance) for _ in range(CASES)]
    return [(source, damaged(chance, source)) for source in sources]


def test_differences(spark: SparkSession, logs: list[tuple[Log, Log]]) -> None:
    """Exactly the offsets at which the records differ are found, each with its kind."""
    rows = [
        (2 * number + side, *row[:4])
        for number, pair in enumerate(logs)
        for side, log in enumerate(pair)
        for row in log
    ]
    records = comparison.together(spark.createDataFrame(rows, comparison.RECORD_FIELDS), 2)
    # Here a row's key and tombstone belong to its digest.
    found = {(row.slice, row.offset): row.kind for row in comparison.differences(records).collect()}

    plain = [([Row(*row[:4], None, False) for row in log] for log in pair) for pair in logs]
    assert found == {
        (number, offset): kind
        for number, (source, target) in enumerate(plain)
        for offset, kind in differences(source, target).items()
    }


def keyed(spark: SparkSession, logs: list[tuple[Log, Log]]) -> tuple[DataFrame, DataFrame]:
    """The logs with their keys, and where they have each."""
    rows = [
        (2 * number + side, *row) for number, pair in enumerate(logs) for side, log in enumerate(pair) for row in log
    ]
    records = comparison.together(spark.createDataFrame(rows, comparison.KEYED_RECORD_FIELDS), 2)
    return records, comparison.keys_held(records.select("range", "offset", "key_digest"))


def test_differences_of_compacted_topics(spark: SparkSession, logs: list[tuple[Log, Log]]) -> None:
    """Of these, the records a log cleaner may have taken are told apart from those that are lost."""
    records, held = keyed(spark, logs)
    found = comparison.differences_of_keys(records, held).collect()

    assert {(row.slice, row.offset): row.kind for row in found} == {
        (number, offset): kind
        for number, (source, target) in enumerate(logs)
        for offset, kind in without_cleaned(source, target).items()
    }


def test_findings_are_runs(spark: SparkSession) -> None:
    """Offsets of a kind that follow one another are one run; only the first runs are kept, all offsets counted."""
    offsets = {
        (0, DiscrepancyKind.MISSING): [1, 2, 3, 7, 9, 10],
        (0, DiscrepancyKind.EXTRA): [4],
        (1, DiscrepancyKind.MISSING): [5],
    }
    rows = [(number, offset, kind) for (number, kind), some in offsets.items() for offset in some]
    differing = spark.createDataFrame(rows, "slice INT, offset BIGINT, kind STRING")

    found = comparison.findings(differing, 2).collect()

    assert sorted(tuple(row) for row in found) == [
        (0, DiscrepancyKind.EXTRA, 4, 5, 1),
        (0, DiscrepancyKind.MISSING, 1, 4, 6),
        (0, DiscrepancyKind.MISSING, 7, 8, 6),
        (1, DiscrepancyKind.MISSING, 5, 6, 1),
    ]


def test_aborted_records_of_compacted_topics_are_left_out_first(
    spark: SparkSession, logs: list[tuple[Log, Log]]
) -> None:
    """They would be obsolete too; but what the target alone has is cleaned, and what lies behind its end as well."""
    records, held = keyed(spark, logs)
    found = comparison.differences_of_keys(records, held, ends={0: 6}).collect()
    expected = dict[tuple[int, int], str]()
    for number, (source, target) in enumerate(logs):
        plain = differences(source, target)
        for offset, kind in without_cleaned(source, target).items():
            is_aborted = all(row.is_aborted for row in source + target if row.offset == offset)
            is_left_out = is_aborted and plain[offset] == DiscrepancyKind.MISSING and (number or offset < 6)
            expected[number, offset] = LEFT_OUT if is_left_out else kind
    assert {(row.slice, row.offset): row.kind for row in found} == expected


@pytest.mark.parametrize("may_lack_aborted", [True, False])
def test_aborted_records_may_be_lacking(spark: SparkSession, may_lack_aborted: bool) -> None:
    """Where the target has nothing in their place they are left out; where it has anything else that is compared."""
    records = [
        (0, 0, 1, True, b"a"),
        (0, 1, 1, False, b"a"),
        (0, 2, 1, True, b"a"),
        (1, 2, 1, False, b"a"),
        (1, 3, 1, True, b"a"),
        (4, 4, 1, True, b"a"),
        # The target ends at 5.
        (4, 5, 1, True, b"a"),
    ]
    found = comparison.differences(
        spark.createDataFrame(records, comparison.RECORD_FIELDS), ends={2: 5} if may_lack_aborted else None
    ).collect()
    assert {row.offset: row.kind for row in found} == {
        0: LEFT_OUT if may_lack_aborted else DiscrepancyKind.MISSING,
        1: DiscrepancyKind.MISSING,
        2: DiscrepancyKind.DIFFERENT,
        3: DiscrepancyKind.EXTRA,
        4: LEFT_OUT if may_lack_aborted else DiscrepancyKind.MISSING,
        5: DiscrepancyKind.MISSING,
    }
