"""How lanes are spread over slots."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, cast

import pytest

from isthmus.model.lane import LaneKey
from isthmus.model.naming import TargetTopic
from isthmus.spark.leases.slots import TaskSlots
from isthmus.spark.leases.spread import (
    CALM,
    IMBALANCE_MAX,
    WORTHWHILE,
    LaneMove,
    describe,
    lightest,
    load_of,
    shares,
    spread,
)


def key(number: int) -> LaneKey:
    """One of many lanes."""
    return LaneKey(TargetTopic("orders"), number)


def carried_out(slots: Mapping[int, Mapping[LaneKey, float]], moves: list[LaneMove]) -> dict[int, dict[LaneKey, float]]:
    """The slots as they are after these moves."""
    after = {slot: dict(lanes) for slot, lanes in slots.items()}
    for move in moves:
        after[move.goal][move.key] = after[move.slot].pop(move.key)
    return after


def test_a_new_lane_goes_where_least_is_borne() -> None:
    """The lower slot where several bear the same."""
    assert lightest({0: 5.0, 1: 3.0, 2: 3.0}) == 1


def test_a_worker_has_its_time_for_lanes_by_what_they_copy() -> None:
    """Idle ones take a little too; nothing is taken of a worker that has no lane."""
    found = shares({key(0): 299.0, key(1): 99.0, key(2): 0.0}, 0.8)
    assert found == {key(0): pytest.approx(0.8 * 300 / 401), key(1): pytest.approx(0.8 * 100 / 401), key(2): 0.8 / 401}
    assert shares({}, 0.8) == {}


def test_lanes_stay_while_the_slots_are_nearly_balanced() -> None:
    """Up to 25 % above the average nothing moves."""
    assert spread({0: {key(n): 0.1 for n in range(5)}, 1: {key(n): 0.1 for n in range(5, 8)}}) == []
    assert spread({0: {key(n): 0.1 for n in range(5)}, 1: {key(n): 0.1 for n in range(5, 7)}})


def test_workers_that_are_busy_all_the_time_keep_their_lanes() -> None:
    """One host is slower than the other and has fewer: none of them could do more."""
    assert spread({0: {key(n): 0.1 for n in range(10)}, 1: {key(10): 0.5, key(11): 0.5}}) == []


def test_a_slot_that_is_new_gets_its_share_at_once() -> None:
    """As many lanes as make all alike, those that do most first."""
    slots: dict[int, dict[LaneKey, float]] = {0: {key(n): 0.25 for n in range(4)}, 1: {}}
    assert spread(slots) == [LaneMove(key(0), 0, 1), LaneMove(key(1), 0, 1)]


def test_idle_lanes_move_to_a_slot_that_is_new() -> None:
    """They may have more to do soon; but not between slots that have some."""
    slots = {0: shares({key(n): 0.0 for n in range(10)}, CALM / 2), 1: {}}
    assert len(spread(slots)) == 5
    assert spread({0: {key(n): CALM / 9 for n in range(8)}, 1: {key(9): 0.0}}) == []


def test_lanes_do_not_go_back_and_forth_while_measures_vary() -> None:
    """A lane stays if the other worker would have nearly as much with it: it would come back with the next measure."""
    assert spread({0: {key(0): 0.5, key(1): 0.5}, 1: {key(2): 0.46}}) == []
    assert spread({0: {key(0): 0.5, key(1): 0.5}, 1: {key(2): 0.4}}) == [LaneMove(key(0), 0, 1)]


def test_the_only_lane_of_a_slot_stays() -> None:
    """Moving it would only move the load."""
    assert spread({0: {key(1): 1.0}, 1: {}}) == []
    assert spread({}) == []


def test_moves_are_described_for_the_log() -> None:
    """How many lanes go from where to where."""
    moves = [LaneMove(key(0), 0, 1), LaneMove(key(1), 2, 1), LaneMove(key(2), 0, 1)]
    assert describe(moves) == "2 lanes move from slot 0 to 1, 1 lane moves from slot 2 to 1"


@pytest.mark.parametrize("seed", range(60))
def test_whatever_workers_have_to_do_moves_make_the_fullest_less_full(seed: int) -> None:
    """No lane moves twice, none is lost; what one pass leaves to do is no more than one lane, and a second moves none,
    if nothing changes.
    """
    chance = random.Random(seed)
    lanes = [(key(n), chance.random() ** 3 * 0.3) for n in range(chance.randint(1, 40))]
    slots: dict[int, dict[LaneKey, float]] = {slot: {} for slot in range(chance.randint(1, 8))}
    for each, share in lanes:
        slots[chance.choice(list(slots)[: chance.randint(1, len(slots))])][each] = share
    before = {slot: sum(own.values()) for slot, own in slots.items()}

    moves = spread(slots)

    after = carried_out(slots, moves)
    fills = {slot: sum(own.values()) for slot, own in after.items()}
    assert len({move.key for move in moves}) == len(moves)
    assert {each for own in after.values() for each in own} == {each for each, _ in lanes}
    average = sum(before.values()) / len(before)
    if moves:
        assert max(before.values()) > average * IMBALANCE_MAX
        assert max(fills.values()) < max(before.values())
    elif max(before.values()) >= CALM and max(before.values()) > average * IMBALANCE_MAX:
        fullest = max(before, key=before.__getitem__)
        enough = before[fullest] * WORTHWHILE
        assert all(min(before.values()) + share > enough for share in slots[fullest].values())
    assert spread(after) == []


@pytest.mark.parametrize(
    ("count", "links", "spare", "groups"),
    [(1, 1, 1, 1), (2, 1, 1, 1), (2, 1, 0, 2), (8, 1, 0, 8), (8, 2, 0, 4), (8, 3, 0, 3), (2, 3, 0, 1), (4, 3, 1, 1)],
)
def test_each_link_gets_its_share_of_the_slots(count: int, links: int, spare: int, groups: int) -> None:
    """Of all but a spare one, rounded up: no slot is without leases while a link could use it."""
    slots = TaskSlots(cast(Any, None), count, links=links, spare=spare)
    assert slots.groups_per_link == groups


def test_idle_lanes_have_a_load_too() -> None:
    """By their number, as nothing else is known of them."""
    assert load_of([0.0, 0.0, 5.0]) == 8.0
