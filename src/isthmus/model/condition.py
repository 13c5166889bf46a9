"""What somebody waits for: that a link or a topic is caught up, lags no more than so far, or is in some state.

`caught-up`            everything the source has is copied, and nothing is in the way
`lag<=N`, `lag=N`      at most N records are still to be copied
`state=A`, `state=A,B` it is in that state, or in one of these
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final, Self

from isthmus.errors import ConfigError
from isthmus.model.lane import LaneState
from isthmus.model.progress import LinkProgress, TopicProgress
from isthmus.model.state import AGED_S, LinkState

_LAG: Final = re.compile(r"lag\s*<?=\s*(\d+)")
_STATE: Final = re.compile(r"state\s*==?\s*(.*)", re.IGNORECASE)
_HINT: Final = "Write caught-up, 'lag<=N' (in quotes, or lag=N) or state=ACTIVE; state=ACTIVE,STOPPED is either."


class Waited(enum.Enum):
    """The kinds of conditions."""

    CAUGHT_UP = enum.auto()
    LAG = enum.auto()
    STATE = enum.auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitCondition:
    """One condition. `lag_max` (records) is for LAG, `states` are for STATE, by name."""

    text: str
    kind: Waited
    lag_max: int = 0
    states: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return self.text

    @classmethod
    def parse(cls, text: str, *, of_topic: bool) -> Self:
        """The condition as people write it; topics have other states than links.

        :raises ConfigError: It is none, or there is no such state.
        """
        given = text.strip()
        if given == "caught-up":
            return cls(text=given, kind=Waited.CAUGHT_UP)
        lag = _LAG.fullmatch(given)
        if lag is not None:
            return cls(text=f"lag<={int(lag[1])}", kind=Waited.LAG, lag_max=int(lag[1]))
        state = _STATE.fullmatch(given)
        if state is None:
            raise ConfigError(f"{text!r} is nothing to wait for", field="--for", hint=_HINT)
        states = frozenset(name.strip().upper() for name in state[1].split(","))
        _check_states(states, of_topic=of_topic)
        return cls(text=f"state={','.join(sorted(states))}", kind=Waited.STATE, states=states)

    def holds(self, found: LinkProgress | TopicProgress) -> bool:
        """Whether it holds by what is known of a link or a topic. What is old, or not known, holds nothing."""
        if self.kind is Waited.STATE:
            return str(found.state) in self.states
        if not _is_seen(found) or not 0 <= found.lag_records <= self.lag_max:
            return False
        return self.kind is Waited.LAG or not found.is_unfinished


def _is_seen(found: LinkProgress | TopicProgress) -> bool:
    """Whether the ends of the logs were seen just now. That a controller was silent for long does not matter."""
    topics = found.topics if isinstance(found, LinkProgress) else (found,)
    ages = (max(p.source_age_s, p.target_age_s) for topic in topics for p in topic.partitions)
    is_away = isinstance(found, LinkProgress) and found.state in (LinkState.UNAVAILABLE, LinkState.FAILED)
    return not is_away and max(ages, default=0.0) <= AGED_S


def _check_states(states: frozenset[str], *, of_topic: bool) -> None:
    known = [str(state) for state in (LaneState if of_topic else LinkState)]
    for name in sorted(states - set(known)):
        near = get_close_matches(name, known, n=1)
        meant = f"Did you mean {near[0]}? " if near else ""
        which = "topics" if of_topic else "links"
        raise ConfigError(
            f"{name or 'nothing'} is no state of {which}", field="--for", hint=f"{meant}There are {', '.join(known)}."
        )
