"""The states of links and lanes, derived from known facts: the one place that decides.

`isthmus status` knows a link by both clusters and by its ledger, `isthmus run` by its own leases; both put what they
know into evidence, and the rules here derive the same state from it. docs/states.md is this module for operators.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

from isthmus.model.lane import LaneState
from isthmus.model.problem import Problem

AGED_S: Final = 10.0
"""An older value is shown with its age. A controller that was silent for longer is not running."""

UNHEARD_S: Final = 3 * AGED_S
"""Leases report all their lanes every eight seconds or so. A lane without a report for longer may not work."""
UNHEARD: Final = Problem(
    f"its task has not been heard for more than {UNHEARD_S:g} s, though its controller is alive",
    "The executor may be frozen, overloaded or cut off from the target: Spark's UI shows it. When the task is lost "
    "the controller starts another one by itself.",
)

LOST: Final = Problem(
    "its task has ended and no other one has reported it since, though its controller is alive",
    "The controller starts another task by itself. If this goes on, Spark's UI and the kernel's log tell why it ends.",
)


class LinkState(enum.StrEnum):
    """Where a link stands."""

    STARTING = "STARTING"
    STANDBY = "STANDBY"
    """Another controller runs it; this one takes it over when that one ends or is silent."""
    ACTIVE = "ACTIVE"
    IMPAIRED = "IMPAIRED"
    """It runs, but something prevents copying some of its topics."""
    PAUSED = "PAUSED"
    UNAVAILABLE = "UNAVAILABLE"
    """A cluster does not answer; tried again."""
    FAILED = "FAILED"
    """Cannot go on without an operator."""
    STOPPED = "STOPPED"
    """No controller runs it."""


RUNNING: Final = (LinkState.ACTIVE, LinkState.IMPAIRED)
"""States of a link that a controller runs, and whose lanes have been heard."""


class ControllerState(enum.StrEnum):
    """The ledger's record of a link's controller."""

    ALIVE = "ALIVE"
    THROTTLED = "THROTTLED"
    """It runs, and reported that a client quota delays its writes: its reports are late."""
    SILENT = "SILENT"
    """It did not end its run properly, and was not heard for longer than `AGED_S`: it was killed,
    is frozen or cut off.
    """
    NONE = "NONE"
    """There was none yet, or the last one ended properly."""
    UNKNOWN = "UNKNOWN"
    """The ledger cannot be read, or brokers that may not have taken the controller's word do not answer."""

    @classmethod
    def from_age(cls, age_s: float | None, *, held_s: float = 0.0) -> ControllerState:
        """Return the state of a controller that was heard `age_s` seconds ago, `None` for never or gone. Brokers may
        delay its writes by `held_s` seconds, by its own report.
        """
        if age_s is None:
            return cls.NONE
        if age_s > AGED_S + held_s:
            return cls.SILENT
        return cls.THROTTLED if held_s else cls.ALIVE

    @property
    def runs(self) -> bool:
        """Whether it runs the link, as far as is known."""
        return self in (ControllerState.ALIVE, ControllerState.THROTTLED)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkEvidence:
    """The known facts about a link. `has_failed`: its run ended by an error. `is_standing_by`: it is run elsewhere, and
    this run waits for the end of that. `has_begun`: its lanes have been heard, and without that no link is ACTIVE.
    `is_impaired`: something prevents copying some of its topics.
    """

    controller: ControllerState
    has_failed: bool = False
    is_away: bool = False
    is_standing_by: bool = False
    is_paused: bool = False
    has_begun: bool = False
    is_impaired: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneEvidence:
    """The known facts about a lane, or about a topic as a whole.

    `ended` is a state that lasts until an operator acts, found by a lane or by looking before it runs. `is_at_source`
    is whether the source has the topic; if not, `is_deleted` is whether its controller found that it was deleted there.
    `reported` is the last report of its lease, `reported_s` its age (s); `has_lost_task` is whether the process of that
    is seen to have ended.
    """

    controller: ControllerState
    ended: LaneState | None = None
    is_paused: bool = False
    source_is_away: bool = False
    target_is_away: bool = False
    is_at_source: bool = True
    is_deleted: bool = False
    reported: LaneState | None = None
    reported_s: float = 0.0
    has_lost_task: bool = False

    @property
    def is_unheard(self) -> bool:
        """Whether its lease reported that it works, but has not reported for a long time since."""
        return self.reported is LaneState.ACTIVE and self.reported_s > UNHEARD_S


def link_state(known: LinkEvidence) -> LinkState:
    """Return the state of a link: the most important one for an operator comes first."""
    if known.has_failed:
        return LinkState.FAILED
    if known.is_away or known.controller is ControllerState.UNKNOWN:
        return LinkState.UNAVAILABLE
    if known.is_standing_by:
        return LinkState.STANDBY
    if known.is_paused:
        return LinkState.PAUSED
    if not known.controller.runs:
        return LinkState.STOPPED
    if not known.has_begun:
        return LinkState.STARTING
    return LinkState.IMPAIRED if known.is_impaired else LinkState.ACTIVE


def lane_state(known: LaneEvidence) -> LaneState:
    """Return the state of a lane: a lasting one, then one set by an operator, then a missing condition, then its own
    report.
    """
    if known.ended is not None:
        return known.ended
    if known.is_paused:
        return LaneState.PAUSED
    if known.target_is_away:
        return LaneState.TARGET_UNAVAILABLE
    if known.source_is_away or not known.is_at_source:
        is_deleted = known.is_deleted and not known.source_is_away
        return LaneState.SOURCE_DELETED if is_deleted else LaneState.SOURCE_UNAVAILABLE
    if not known.controller.runs:
        return LaneState.STOPPED
    if known.reported is None or known.reported is LaneState.STOPPED or known.is_unheard or known.has_lost_task:
        return LaneState.STARTING
    return known.reported
