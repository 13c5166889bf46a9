"""How lanes are spread over slots: pure arithmetic on measured loads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from isthmus.model.lane import LaneKey

IMBALANCE_MAX: Final = 1.25
"""Lanes stay where they are as long as the fullest slot has at most this many times the average."""
IDLE_LOAD: Final = 1.0
"""What a lane counts for besides what it moves, in bytes/s: so that idle lanes are spread as well."""


def load_of(lanes: Iterable[float]) -> float:
    """What a slot bears that runs lanes of these loads, in bytes/s."""
    return sum(load + IDLE_LOAD for load in lanes)


def lightest(loads: Mapping[int, float]) -> int:
    """The slot a new lane goes to."""
    return min(loads, key=lambda slot: (loads[slot], slot))


def leaving(lanes: Mapping[LaneKey, float], slot: int, loads: Mapping[int, float]) -> dict[LaneKey, int]:
    """The lanes that leave `slot`, whose lease ends, and the slots they go to; none while the slots are balanced.

    `lanes` are those of the slot with their loads, `loads` what every slot bears. Largest first, each to the slot that
    bears least, and only where that makes the larger of the two smaller.
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
