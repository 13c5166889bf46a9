"""What is compared and what is not: lag, retention, times, topics and partitions that are not there."""

from __future__ import annotations

from typing import Final

import pytest

from isthmus.errors import BrokerRefused, ConfigError
from isthmus.spark.compare.links import DiscrepancyKind, job
from isthmus.spark.compare.links.extent import ComparedSlice
from isthmus.spark.compare.links.sides import Sides
from testing.records import oracle, topics
from testing.records.forgery import built
from testing.records.pair import RECORDS, SECOND_MS, Pair, found, records, without

pytestmark = pytest.mark.integration

HELD: Final = 70
CUT: Final = 35


def test_lag(pair: Pair) -> None:
    """What the target does not have yet is missing, also amidst a batch, unless lag is allowed."""
    behind, amidst = pair.topic("behind"), pair.topic("amidst")
    pair.produce(behind, 0, HELD)
    pair.forge(behind)
    pair.produce(behind, HELD)
    pair.append(pair.source, amidst, built(records()))
    pair.append(pair.target, amidst, built(records(0, HELD)))

    strict = pair.verify(behind, amidst)
    lenient = pair.verify(behind, amidst, allow_lag=True)

    for name in (behind, amidst):
        assert found(strict[name]) == [(DiscrepancyKind.MISSING, HELD, RECORDS)]
        assert strict[name].records == RECORDS
        assert strict[name].count(DiscrepancyKind.MISSING) == RECORDS - HELD
        assert lenient[name].is_equal
    assert (lenient[behind].records, lenient[behind].lag) == (HELD, RECORDS - HELD)
    # A batch of which the target holds a part counts as lag whole.
    assert (lenient[amidst].records, lenient[amidst].lag) == (0, RECORDS)


def test_what_is_there_and_what_is_not(pair: Pair) -> None:
    """Retention limits what is compared; topics, partitions and records that one side lacks are named."""
    trimmed, cut, foreign, narrow, empty = (
        pair.topic("trimmed"),
        pair.topic("cut"),
        pair.topic("foreign"),
        pair.topic("narrow", partitions=2),
        pair.topic("empty"),
    )
    absent = pair.topic("absent", at_target=False)
    for name in (trimmed, cut, foreign, narrow, absent):
        pair.produce(name)
    for name in (trimmed, cut, foreign, narrow):
        pair.forge(name)
    topics.delete_records(pair.source, trimmed, CUT)
    topics.delete_records(pair.target, cut, CUT)
    pair.append(pair.target, foreign, built(records(0, 5)))
    pair.produce(narrow, partition=1)

    verdicts = pair.verify(trimmed, cut, foreign, narrow, empty, absent)

    for name in (trimmed, cut):
        (partition,) = verdicts[name].partitions
        assert partition.is_equal
        assert (partition.offset_begin, partition.offset_end, partition.records) == (CUT, RECORDS, RECORDS - CUT)
    assert found(verdicts[foreign]) == [(DiscrepancyKind.EXTRA, RECORDS, RECORDS + 5)]
    assert found(verdicts[narrow]) == []
    assert found(verdicts[narrow], 1) == [(DiscrepancyKind.MISSING, 0, RECORDS)]
    assert "1 partition" in verdicts[narrow].problem
    assert verdicts[empty].is_equal
    assert verdicts[empty].records == 0
    assert "no topic" in verdicts[absent].problem
    assert found(verdicts[absent]) == [(DiscrepancyKind.MISSING, 0, RECORDS)]


def test_since_and_until(pair: Pair) -> None:
    """Times are looked up at the source; faults before and behind them are none."""
    name = pair.topic("times")
    pair.produce(name)
    pair.forge(name, without(12, 48, 88))

    since = pair.verify(name, since_ms=topics.SEPTEMBER + 45 * SECOND_MS)[name]
    until = pair.verify(name, until_ms=topics.SEPTEMBER + 45 * SECOND_MS)[name]
    never = pair.verify(name, since_ms=topics.SEPTEMBER + RECORDS * SECOND_MS)[name]

    assert found(since) == [(DiscrepancyKind.MISSING, 48, 49), (DiscrepancyKind.MISSING, 88, 89)]
    assert (since.partitions[0].offset_begin, since.records) == (45, 55)
    # The end is where a batch ends, which on a busy machine is not every ten records.
    end = max(last + 1 for _, last, _ in oracle.batches(pair.source, name) if last < 45)
    assert found(until) == [(DiscrepancyKind.MISSING, 12, 13)]
    assert (until.partitions[0].offset_end, until.records) == (end, end)
    assert (never.is_equal, never.records) == (True, 0)


def test_retention_goes_on_meanwhile(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """What one side loses between the look at batches and that at records is no difference."""
    name = pair.topic("meanwhile")
    pair.produce(name)
    pair.forge(name, without(80), anew=True)
    unlike = job._unlike

    def later(sides: Sides, suspects: job.Slices) -> dict[int, list[ComparedSlice]]:
        assert suspects
        topics.delete_records(pair.target, name, HELD)
        return unlike(sides, suspects)

    monkeypatch.setattr(job, "_unlike", later)

    verdict = pair.verify(name)[name]

    assert found(verdict) == [(DiscrepancyKind.MISSING, 80, 81)]


def test_unknown_source_topic_is_an_error(pair: Pair) -> None:
    """A topic the source does not have is a mistake of whoever asked, not a difference."""
    with pytest.raises(BrokerRefused, match="UNKNOWN_TOPIC_OR_PARTITION"):
        pair.verify("nowhere")


def test_two_topics_into_one_is_an_error(pair: Pair) -> None:
    """No two source topics can stand at the same offsets of one target topic."""
    with pytest.raises(ConfigError, match="same target topic"):
        pair.verify_into({"a": "c", "b": "c"})
