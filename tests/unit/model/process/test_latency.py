"""Latencies in buckets: close enough, cheap to add up."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from isthmus.model.process.latency import BUCKETS, FLOOR_MS, RATIO, bucket_of, merge, quantile_ms, upper_ms

LATENCIES = st.floats(FLOOR_MS, 3_600_000)


def histogram(latencies: list[float]) -> list[int]:
    counts = [0] * BUCKETS
    for latency in latencies:
        counts[bucket_of(latency)] += 1
    return counts


@given(LATENCIES)
def test_a_latency_lies_within_its_bucket(latency: float) -> None:
    """Between the upper edges of the bucket before and its own."""
    bucket = bucket_of(latency)
    assert latency <= upper_ms(bucket) * 1.000001
    assert bucket == 0 or latency >= upper_ms(bucket - 1) / 1.000001


@given(st.floats(-1e9, 1e12))
def test_every_number_has_a_bucket(latency: float) -> None:
    """Clocks that disagree make negative latencies, lost lanes huge ones."""
    assert 0 <= bucket_of(latency) < BUCKETS


@given(st.lists(LATENCIES, min_size=1, max_size=50), st.floats(0, 1))
def test_quantiles_are_at_most_a_ninth_too_high(latencies: list[float], q: float) -> None:
    """The share `q` of all stays within the quantile, and less than that within a bucket below."""
    quantile = quantile_ms(histogram(latencies), q)
    assert quantile is not None
    within = sum(latency <= quantile * 1.000001 for latency in latencies)
    assert within >= q * len(latencies)
    assert any(latency * RATIO * 1.000001 >= quantile for latency in latencies)


@given(st.lists(st.lists(LATENCIES, max_size=20), max_size=4))
def test_merged_histograms_count_all(groups: list[list[float]]) -> None:
    """Adding up histograms is the histogram of everything."""
    assert merge(histogram(group) for group in groups) == histogram([latency for group in groups for latency in group])


def test_nothing_counted_has_no_quantile() -> None:
    """No latencies, no answer."""
    assert quantile_ms([0] * BUCKETS, 0.5) is None
