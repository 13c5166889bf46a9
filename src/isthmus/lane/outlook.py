"""What becomes of a lane by what is seen of its logs: for runs and plans alike, whatever becomes of its offsets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from isthmus.errors import AuthenticationFailed, ClusterError, NotAuthorized
from isthmus.model.lane import Gap, LaneKey, LaneState
from isthmus.model.problem import Problem

RETRY_S: Final = 0.1
DENIED_RETRY_S: Final = 5.0
"""What a right is missing for, or is refused, is tried again so long after."""
_REPLICAS_HINT: Final = (
    "Bring the target's brokers back (`isthmus cluster` names those that are away); the lane goes on by itself."
)
UNAVAILABLE: Final = frozenset({LaneState.SOURCE_UNAVAILABLE, LaneState.TARGET_UNAVAILABLE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """A source has to end before its target in so many looks, `pause_s` apart, until that is believed: a new leader's
    high watermark lags a while.
    """

    looks: int = 3
    pause_s: float = 1.0


USUAL_DOUBT: Final = Doubt()


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What a run will find of one partition at its first look. `gap` is what it passes over, if it is told to go on."""

    state: LaneState = LaneState.ACTIVE
    problem: Problem | None = None
    gap: Gap | None = None


def state_of(error: ClusterError, otherwise: LaneState) -> LaneState:
    """NOT_AUTHORIZED where a right is missing or a login was refused."""
    return LaneState.NOT_AUTHORIZED if isinstance(error, AuthenticationFailed | NotAuthorized) else otherwise


def too_few_replicas(key: LaneKey) -> Problem:
    """The target does not take what is written while so few of its replicas are in sync."""
    return Problem(
        f"the target has too few in-sync replicas for {key}: fewer than min.insync.replicas of the topic",
        _REPLICAS_HINT,
    )


def unreplicated(key: LaneKey, log_end: int, high_watermark: int) -> Problem:
    """Nothing may be written behind what could still be lost."""
    return Problem(
        f"{key} ends at {log_end} at the target, and only what lies before {high_watermark} is replicated: in-sync "
        "replicas are missing or slow",
        _REPLICAS_HINT,
    )
