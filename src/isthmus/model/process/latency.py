"""Latencies counted in buckets that grow by a fixed ratio: cheap to add, to merge and to send."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

RATIO: Final = 2 ** (1 / 8)
BUCKETS: Final = 256
"""From 0.01 ms up; the last one is open and begins at about eleven hours."""
FLOOR_MS: Final = 0.01
_PER_E_FOLD: Final = 1 / math.log(RATIO)


def bucket_of(latency_ms: float) -> int:
    """Return the bucket of a latency; zero and less count as the smallest."""
    if latency_ms <= FLOOR_MS:
        return 0
    bucket = int(math.log(latency_ms / FLOOR_MS) * _PER_E_FOLD) + 1
    return bucket if bucket < BUCKETS else BUCKETS - 1


def upper_ms(bucket: int) -> float:
    """Return the largest latency of a bucket, in ms."""
    return FLOOR_MS * RATIO**bucket


def merge(histograms: Iterable[Sequence[int]]) -> list[int]:
    """Add up the histograms."""
    total = [0] * BUCKETS
    for histogram in histograms:
        for bucket, count in enumerate(histogram):
            total[bucket] += count
    return total


def quantile_ms(histogram: Sequence[int], q: float) -> float | None:
    """Return the latency that a share `q` of all stays within, in ms (at most 9 % too high); `None` for an empty
    histogram.
    """
    total = sum(histogram)
    if not total:
        return None
    wanted = q * total
    seen = 0
    for bucket, count in enumerate(histogram):
        seen += count
        if seen >= wanted and count:
            return upper_ms(bucket)
    return upper_ms(BUCKETS - 1)
