"""Spread lanes over slots: pure arithmetic on measured loads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from isthmus.model.lane import LaneKey

IMBALANCE_MAX: Final = 1.25
"""Lanes stay where they are as long as the fullest slot has at most this many times the average."""
IDLE_LOAD: Final = 1.0
"""The load of an idle lane, in bytes/s, which is added to the rate of each: so that idle lanes are spread as well."""


def load_of(lanes: Iterable[float]) -> float:
    """Return the load of a slot that runs lanes with these loads, in bytes/s."""
    return sum(load + IDLE_LOAD for load in lanes)


def lightest(loads: Mapping[int, float]) -> int:
    """Return the slot with the smallest load."""
    return min(loads, key=lambda slot: (loads[slot], slot))


def leaving(lanes: Mapping[LaneKey, float], slot: int, loads: Mapping[int, float]) -> dict[LaneKey, int]:
    """Choose the lanes that leave `slot`, whose lease ends, and their new slots; none while the slots are balanced.

    `lanes` are those of the slot with their loads, `loads` those of all slots. Largest first, each lane goes to the
    slot with the smallest load, and only if that reduces the larger load of the two.
    """
    borne = dict(loads)
    average = sum(borne.values()) / len(borne)
    if borne[slot] <= average * IMBALANCE_MAX or borne[slot] < max(borne.values()):
        return {}
    moves: dict[LaneKey, int] = {}
    for key, load in sorted(lanes.items(), key=lambda lane: (-lane[1], lane[0])):
        if borne[slot] <= average:
            break
        goal, weight = lightest(borne), load + IDLE_LOAD
        if goal != slot and borne[goal] + weight < borne[slot]:
            moves[key] = goal
            borne[goal] += weight
            borne[slot] -= weight
    return moves
