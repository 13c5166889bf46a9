"""Checksums that follow a change without a look at what has not changed."""

from __future__ import annotations

import random

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from isthmus.kafka.batches.checksum import update_crc

BLOCK = 8192


@given(
    fronts=st.integers(0, 64).flatmap(lambda size: st.tuples(*[st.binary(min_size=size, max_size=size)] * 2)),
    behind=st.binary(max_size=300),
    damage=st.integers(0, 2**32 - 1),
)
def test_crc_follows_the_front(fronts: tuple[bytes, bytes], behind: bytes, damage: int) -> None:
    """What comes out is the CRC of the new bytes; one that was wrong is wrong by the same bits."""
    before, after = fronts
    found = update_crc(crc32c(before + behind) ^ damage, memoryview(before), after, len(behind))
    assert found == crc32c(after + behind) ^ damage


@pytest.mark.parametrize("size", [BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK, 64 * BLOCK + 5, (5 << 20) + 77])
def test_however_much_is_behind(size: int) -> None:
    """Sizes of batches, from one block of zeros to many."""
    behind = random.Random(size).randbytes(size)
    before, after = b"what it was", b"what it is."
    assert update_crc(crc32c(before + behind), before, after, size) == crc32c(after + behind)
