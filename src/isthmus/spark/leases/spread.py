"""Spread lanes over slots: pure arithmetic on measured loads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from isthmus.model.lane import LaneKey
from isthmus.model.text.wording import format_count

IMBALANCE_MAX: Final = 1.25
"""Lanes stay where they are as long as the fullest slot has at most this many times the average."""
BALANCED: Final = 1.1
"""Once lanes move, so many do that the fullest slot has at most this many times the average."""
WORTHWHILE: Final = 0.9
"""A lane moves only if the slot that it goes to will have at most this much of what the fullest has: what is measured
varies, and lanes would go back and forth.
"""
IDLE_LOAD: Final = 1.0
"""The load of an idle lane, in bytes/s, which is added to the rate of each: so that idle lanes are spread as well."""
IDLE_BUSY: Final = 0.001
"""The least share of a worker's time that lanes are taken to need: idle ones move to a slot without any, too."""
CALM: Final = 0.2
"""Workers that work for a smaller share of their time than this need no help from others."""


class LaneMove(NamedTuple):
    """A lane that is to move from one slot to another."""

    key: LaneKey
    slot: int
    goal: int


def describe(moves: Iterable[LaneMove]) -> str:
    """Describe moves for the log."""
    ways = Counter((move.slot, move.goal) for move in moves)
    return ", ".join(
        f"{format_count(count, 'lane')} {'moves' if count == 1 else 'move'} from slot {slot} to {goal}"
        for (slot, goal), count in sorted(ways.items())
    )


def load_of(lanes: Iterable[float]) -> float:
    """Return the load of a slot that runs lanes with these loads, in bytes/s."""
    return sum(load + IDLE_LOAD for load in lanes)


def lightest(loads: Mapping[int, float]) -> int:
    """Return the slot with the smallest load."""
    return min(loads, key=lambda slot: (loads[slot], slot))


def shares(lanes: Mapping[LaneKey, float], busy: float) -> dict[LaneKey, float]:
    """Return which share of its time a worker has for each of its lanes, by their loads in bytes/s, if it works for the
    share `busy` of its time in all.
    """
    total = load_of(lanes.values())
    return {key: busy * (load + IDLE_LOAD) / total for key, load in lanes.items()}


def spread(slots: Mapping[int, Mapping[LaneKey, float]]) -> list[LaneMove]:
    """Choose lanes that move to other slots, so that all workers have about as much to do; none while they nearly have.

    `slots` are the lanes of each slot, with the share of its worker's time that each takes. The largest lane of the
    fullest slot goes first, to the emptiest slot, and only if that is clearly less full then than the other one was.
    While all workers are calm lanes move to slots without any alone.
    """
    homes = {slot: dict(lanes) for slot, lanes in slots.items()}
    fills = {slot: sum(lanes.values()) for slot, lanes in homes.items()}
    average = sum(fills.values()) / max(len(fills), 1)
    empty = {slot for slot, lanes in homes.items() if not lanes}
    goals = empty if max(fills.values(), default=0.0) < CALM else set(fills)
    moves: list[LaneMove] = []
    moved: set[LaneKey] = set()
    while goals and max(fills.values()) > average * (BALANCED if moves else IMBALANCE_MAX):
        move = _next_move(homes, fills, goals, moved)
        if move is None:
            break
        share = homes[move.slot].pop(move.key)
        homes[move.goal][move.key] = share
        fills[move.slot] -= share
        fills[move.goal] += share
        moved.add(move.key)
        moves.append(move)
    return moves


def _next_move(
    homes: Mapping[int, Mapping[LaneKey, float]],
    fills: Mapping[int, float],
    goals: Collection[int],
    moved: Collection[LaneKey],
) -> LaneMove | None:
    fullest = max(fills, key=lambda slot: (fills[slot], -slot))
    others = {slot: fills[slot] for slot in goals if slot != fullest}
    if not others:
        return None
    goal = lightest(others)
    for key, share in sorted(homes[fullest].items(), key=lambda lane: (-lane[1], lane[0])):
        if key not in moved and fills[goal] + share <= fills[fullest] * WORTHWHILE:
            return LaneMove(key, fullest, goal)
    return None
