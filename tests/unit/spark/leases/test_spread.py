"""How lanes are spread over slots."""

from __future__ import annotations

import random
from typing import Any, cast

import pytest

from isthmus.model.lane import LaneKey
from isthmus.model.naming import TargetTopic
from isthmus.spark.leases.slots import TaskSlots
from isthmus.spark.leases.spread import IMBALANCE_MAX, leaving, lightest, load_of


def key(number: int) -> LaneKey:
    """One of many lanes."""
    return LaneKey(TargetTopic("orders"), number)


def test_a_new_lane_goes_where_least_is_borne() -> None:
    """The lower slot where several bear the same."""
    assert lightest({0: 5.0, 1: 3.0, 2: 3.0}) == 1


def test_lanes_stay_while_the_slots_are_nearly_balanced() -> None:
    """Up to 25 % above the average nothing moves."""
    lanes = {key(number): 10.0 for number in range(10)}
    assert leaving(lanes, 0, {0: 125.0, 1: 100.0, 2: 75.0}) == {}


def test_only_the_fullest_slot_gives_lanes_away() -> None:
    """The others have their turn when they are the fullest."""
    lanes = {key(number): 10.0 for number in range(20)}
    assert leaving(lanes, 0, {0: 220.0, 1: 300.0, 2: 0.0}) == {}


def test_the_only_lane_of_a_slot_stays() -> None:
    """Moving it would only move the load."""
    assert leaving({key(1): 500.0}, 0, {0: 501.0, 1: 0.0}) == {}


def test_idle_lanes_are_spread_too() -> None:
    """By their number, as nothing else is known of them."""
    lanes = {key(number): 0.0 for number in range(10)}
    assert len(leaving(lanes, 0, {0: load_of(lanes.values()), 1: 0.0})) == 5


@pytest.mark.parametrize("seed", range(20))
def test_moves_make_the_fullest_slot_smaller(seed: int) -> None:
    """Whatever the loads, no goal ends up with more than the slot had, and the slot not far above the average."""
    chance = random.Random(seed)
    lanes = {key(number): chance.random() * 100 for number in range(chance.randint(1, 40))}
    loads = {0: load_of(lanes.values())} | {slot: chance.random() * 200 for slot in range(1, chance.randint(2, 6))}

    moves = leaving(lanes, 0, loads)

    after = dict(loads)
    for moved, goal in moves.items():
        assert goal != 0
        after[0] -= load_of([lanes[moved]])
        after[goal] += load_of([lanes[moved]])
    assert max(after.values()) <= max(loads.values())
    average = sum(loads.values()) / len(loads)
    if moves:
        assert loads[0] > average * IMBALANCE_MAX


@pytest.mark.parametrize(
    ("count", "links", "groups", "spare"),
    [(1, 1, 1, 0), (2, 1, 1, 1), (8, 1, 7, 1), (8, 2, 3, 2), (2, 3, 1, 1), (4, 3, 1, 1)],
)
def test_one_slot_is_left_for_what_comes_next(count: int, links: int, groups: int, spare: int) -> None:
    """Where there are enough of them; each link gets at least one group."""
    slots = TaskSlots(cast(Any, None), count, links=links)
    assert (slots.groups_per_link, slots.has_spare) == (groups, spare > 0)


def test_the_largest_lanes_go_first_each_to_the_lightest_slot() -> None:
    """What a goal was given counts when the next lane is placed; of equal lanes the first goes."""
    lanes = {key(0): 1.0, key(1): 60.0, key(3): 50.0, key(2): 50.0, key(4): 40.0}
    loads = {0: load_of(lanes.values()), 1: 0.0, 2: 5.0}
    assert leaving(lanes, 0, loads) == {key(1): 1, key(2): 2, key(0): 2}


def test_no_more_lanes_go_than_have_to() -> None:
    """A slot that has come down to the average keeps the rest."""
    lanes = {key(0): 15.0, key(1): 5.0, key(2): 21.0}
    loads = {0: load_of(lanes.values()), 1: 40.0, 2: 0.0}
    assert loads[0] - load_of([21.0]) < sum(loads.values()) / 3
    assert leaving(lanes, 0, loads) == {key(2): 2}
    lanes = {key(0): 15.0, key(1): 5.0, key(2): 10.0, key(3): 10.0}
    assert leaving(lanes, 0, {0: load_of(lanes.values()), 1: 40.0, 2: 0.0}) == {key(0): 2}
