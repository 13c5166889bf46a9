"""Partitions are those that Kafka's own producer chooses."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner import murmur2 as theirs

from isthmus.spark.dataframes.sinkpartitions import murmur2, murmur2_of, partitions_by_key, runs, spread

UINT32 = 0xFFFFFFFF
# From Kafka's own UtilsTest.
KNOWN = {b"21": -973932308, b"foobar": -790332482, b"a-little-bit-long-string": -985981536, b"abc": 479470107}


@given(st.lists(st.binary(max_size=300), max_size=40))
def test_hashes_are_those_of_other_clients(keys: list[bytes]) -> None:
    """One by one and many at once, keys of any length, also of none."""
    ends = np.cumsum([len(key) for key in keys], dtype=np.int64)
    begins = ends - np.asarray([len(key) for key in keys], np.int64)
    found = murmur2_of(np.frombuffer(b"".join(keys), np.uint8), begins, ends)

    expected = [theirs(key) & UINT32 for key in keys]
    assert found.tolist() == expected
    assert [murmur2(key) for key in keys] == expected
    assert partitions_by_key(found, 7).tolist() == [(each & 0x7FFFFFFF) % 7 for each in expected]


def test_hashes_are_those_of_the_java_client() -> None:
    """As Kafka's own tests have them."""
    assert {key: murmur2(key) for key in KNOWN} == {key: value & UINT32 for key, value in KNOWN.items()}


def test_rows_without_a_key_are_spread() -> None:
    """Many go to all partitions alike, a few stay together."""
    assert np.bincount(spread(1_000, 4, 3)).tolist() == [250] * 4
    assert len(set(spread(20, 4, 3).tolist())) == 1
    assert spread(0, 4, 0).tolist() == []


def test_runs_are_equal_values_side_by_side() -> None:
    """They cover all rows."""
    values = np.asarray([random.Random(1).randrange(4) for _ in range(100)])
    order = np.argsort(values, kind="stable")
    bounds = runs(order, values).tolist()

    assert (bounds[0], bounds[-1]) == (0, 100)
    for begin, end in pairwise(bounds):
        assert len(set(values[order[begin:end]].tolist())) == 1
