"""What becomes of a lane by what is seen of its logs: for runs and plans alike, whatever becomes of its offsets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from isthmus.errors import AuthenticationFailed, ClusterError, NotAuthorized
from isthmus.model.lane import Gap, LaneState
from isthmus.model.problem import Problem

RETRY_S: Final = 0.1
DENIED_RETRY_S: Final = 5.0
"""What a right is missing for, or is refused, is tried again so long after."""
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
