"""Levels in producer ids."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isthmus.model.copyflags import NUMBER_BITS, bit, distributor_producer_id, is_done_with, level_of, mask
from isthmus.model.kafka.transactions import is_lone, lone_producer_id

LEVELS = st.integers(1, 64)
NUMBERS = st.integers(0, (1 << NUMBER_BITS) - 1)


@given(LEVELS, NUMBERS)
def test_a_distributors_id_holds_its_level(level: int, number: int) -> None:
    """It is a producer id that Kafka takes, and none that a link uses otherwise; another number makes another id."""
    found = distributor_producer_id(level, number)
    assert found != distributor_producer_id(level, number ^ 1)
    assert level_of(found) == level
    assert 0 < found < 1 << 63
    assert not is_lone(found)


@given(st.integers(-1, 1 << 60))
def test_ids_that_brokers_give_have_no_level(producer_id: int) -> None:
    """Nor has a producer that has none, nor what a link writes under ids of its own."""
    assert level_of(producer_id) == 0
    assert level_of(lone_producer_id(max(producer_id, 0))) == 0
    assert not is_done_with(producer_id, 64)


@given(LEVELS, LEVELS, NUMBERS)
def test_what_is_left_alone_is_what_flags_say(made: int, level: int, number: int) -> None:
    """The lowest flag decides, and that is the one of whoever made the copy."""
    assert is_done_with(distributor_producer_id(made, number), level) == bool(bit(made) & mask(level))


@pytest.mark.parametrize("made", [0, 1, 64])
def test_a_mirror_leaves_nothing_alone(made: int) -> None:
    """It has no level."""
    assert not is_done_with(distributor_producer_id(made, 7), 0)
