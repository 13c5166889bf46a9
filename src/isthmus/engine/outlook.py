"""The state of a lane that follows from a look at its logs, for runs and plans, identity and mapped lanes alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from isthmus.errors import AuthenticationFailed, ClusterError, NotAuthorized
from isthmus.model.lane import Gap, LaneKey, LaneState
from isthmus.model.problem import Problem

RETRY_S: Final = 0.1
DENIED_RETRY_S: Final = 5.0
"""The pause in seconds before a request that lacks a right, or is refused, is tried again."""
_REPLICAS_HINT: Final = (
    "Bring the target's brokers back (`isthmus cluster` names those that are away); the lane goes on by itself."
)
UNAVAILABLE: Final = frozenset({LaneState.SOURCE_UNAVAILABLE, LaneState.TARGET_UNAVAILABLE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """A source that ends before its target is believed after so many looks, `pause_s` apart: the high watermark of a
    new leader lags for a while.
    """

    looks: int = 3
    pause_s: float = 1.0


USUAL_DOUBT: Final = Doubt()


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """The state that a run will find for one partition at its first look. `gap` is skipped if gaps may be passed."""

    state: LaneState = LaneState.ACTIVE
    problem: Problem | None = None
    gap: Gap | None = None


def state_of(error: ClusterError, otherwise: LaneState) -> LaneState:
    """Return NOT_AUTHORIZED where a right is missing or a login was refused, else `otherwise`."""
    return LaneState.NOT_AUTHORIZED if isinstance(error, AuthenticationFailed | NotAuthorized) else otherwise


def too_few_replicas(key: LaneKey) -> Problem:
    """The problem that the target refuses writes while too few of its replicas are in sync."""
    return Problem(
        f"the target has too few in-sync replicas for {key}: fewer than min.insync.replicas of the topic",
        _REPLICAS_HINT,
    )


def unreplicated(key: LaneKey, log_end: int, high_watermark: int) -> Problem:
    """The problem that the target's log is not fully replicated: no record may follow one that could still be lost."""
    return Problem(
        f"{key} ends at {log_end} at the target, and only what lies before {high_watermark} is replicated: in-sync "
        "replicas are missing or slow",
        _REPLICAS_HINT,
    )
