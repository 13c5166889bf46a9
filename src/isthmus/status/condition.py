"""The conditions that an operator can wait for: a link or a topic is caught up, has at most some lag, or is in some
state.

`caught-up`            everything is copied that the source had when the wait began, and nothing is in the way
`committed`            the same, but for what was in open transactions then
`lag<=N`, `lag=N`      at most N records are still to be copied, or wait for open transactions
`lag_seconds<=N`       the oldest of these records is no older than N seconds
`state=A`, `state=A,B` it is in that state, or in one of these; links are in those of pairs too (`state=IN_SYNC`)
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from math import inf
from typing import Final, NamedTuple, Self

from isthmus.errors import ConfigError
from isthmus.model.lane import LaneKey, LaneState
from isthmus.model.links.pair import PairState
from isthmus.model.links.progress import LinkProgress, PartitionProgress, TopicProgress
from isthmus.model.state import AGED_S, LinkState

_LAG: Final = re.compile(r"lag\s*<?=\s*(\d+)")
_STATE: Final = re.compile(r"state\s*==?\s*(.*)", re.IGNORECASE)
_LAG_S: Final = re.compile(r"lag_seconds\s*<?=\s*(\d+(?:\.\d+)?)")
_OF_PAIRS: Final = frozenset(map(str, PairState))
_HINT: Final = (
    "Write caught-up, committed, 'lag<=N' (in quotes, or lag=N), 'lag_seconds<=N' or state=ACTIVE; "
    "state=ACTIVE,STOPPED is either, and state=FOLLOWING and state=IN_SYNC are for links."
)


class Waited(enum.Enum):
    """The kinds of conditions."""

    CAUGHT_UP = enum.auto()
    COMMITTED = enum.auto()
    LAG = enum.auto()
    LAG_S = enum.auto()
    STATE = enum.auto()


_ARRIVED: Final = {"caught-up": Waited.CAUGHT_UP, "committed": Waited.COMMITTED}


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitCondition:
    """One condition. `lag_max` (records) is for LAG, `lag_max_s` for LAG_S, `states` are for STATE, by name."""

    text: str
    kind: Waited
    lag_max: int = 0
    lag_max_s: float = 0.0
    states: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return self.text

    @property
    def is_of_pairs(self) -> bool:
        """Whether it is about the state of a link's pairs, beside that of its controller."""
        return not self.states.isdisjoint(_OF_PAIRS)

    @classmethod
    def parse(cls, text: str, *, of_topic: bool) -> Self:
        """Parse a condition as people write it; topics have other states than links.

        :raises ConfigError: It is none, or there is no such state.
        """
        given = text.strip()
        if given in _ARRIVED:
            return cls(text=given, kind=_ARRIVED[given])
        lag = _LAG.fullmatch(given)
        if lag is not None:
            return cls(text=f"lag<={int(lag[1])}", kind=Waited.LAG, lag_max=int(lag[1]))
        lag_s = _LAG_S.fullmatch(given)
        if lag_s is not None:
            return cls(text=f"lag_seconds<={float(lag_s[1]):g}", kind=Waited.LAG_S, lag_max_s=float(lag_s[1]))
        state = _STATE.fullmatch(given)
        if state is None:
            raise ConfigError(f"{text!r} is nothing to wait for", field="--for", hint=_HINT)
        states = frozenset(name.strip().upper() for name in state[1].split(","))
        _check_states(states, of_topic=of_topic)
        return cls(text=f"state={','.join(sorted(states))}", kind=Waited.STATE, states=states)

    def holds(self, found: LinkProgress | TopicProgress, begun: SourceEnds | None) -> bool:
        """Return whether it holds for the known state of a link or a topic, whose sources ended at `begun` when the
        wait began.

        An old or unknown state fulfils no condition.
        """
        if self.kind is Waited.STATE:
            pairs = {str(found.pair_state)} if isinstance(found, LinkProgress) else set[str]()
            return not self.states.isdisjoint({str(found.state), *pairs})
        if not _is_seen(found):
            return False
        partitions = _partitions(found)
        if self.kind is Waited.LAG:
            return _is_known(found) and sum(p.lag_records + p.waiting_records for p in partitions) <= self.lag_max
        if self.kind is Waited.LAG_S:
            return _is_known(found) and all(_age_s(each) <= self.lag_max_s for each in partitions)
        return begun is not None and not found.is_unfinished and self._is_there(partitions, begun)

    def _is_there(self, partitions: Iterable[PartitionProgress], begun: SourceEnds) -> bool:
        """Return whether all records are copied that the sources had when they ended at `begun`."""
        known = {each.key: each for each in partitions}
        for key, ends in begun.items():
            each = known.get(key)
            end = ends.log if self.kind is Waited.CAUGHT_UP else ends.stable
            # An end beyond the source's end does not belong to a copy of the source.
            if each is None or not end <= each.position <= max(end, each.source_log_end):
                return False
        return True


class SourceEnd(NamedTuple):
    """The end of a source's log, and its last stable offset."""

    stable: int
    log: int


SourceEnds = Mapping[LaneKey, SourceEnd]


def source_ends(found: LinkProgress | TopicProgress) -> SourceEnds | None:
    """Return the current ends of the sources of a link or a topic; `None` while not all of them are known."""
    if not _is_seen(found) or not _is_known(found):
        return None
    return {each.key: SourceEnd(each.source_end, each.source_log_end) for each in _partitions(found)}


def _partitions(found: LinkProgress | TopicProgress) -> list[PartitionProgress]:
    topics = found.topics if isinstance(found, LinkProgress) else (found,)
    return [partition for topic in topics for partition in topic.partitions]


def _is_known(found: LinkProgress | TopicProgress) -> bool:
    """Return whether the lag and the waiting records of all partitions are known."""
    return found.lag_records >= 0 and all(each.source_log_end >= 0 for each in _partitions(found))


def _age_s(partition: PartitionProgress) -> float:
    """Return the age of the oldest record that is not copied; infinite if there is one of unknown age."""
    lag_s = partition.lag_s if partition.lag_records else 0.0
    waiting_s = partition.waiting_s if partition.waiting_records else 0.0
    return max(inf if lag_s is None else lag_s, inf if waiting_s is None else waiting_s)


def _is_seen(found: LinkProgress | TopicProgress) -> bool:
    """Return whether the ends of the logs were seen just now. A long silence of the controller does not matter."""
    ages = (max(each.source_age_s, each.target_age_s) for each in _partitions(found))
    is_away = isinstance(found, LinkProgress) and found.state in (LinkState.UNAVAILABLE, LinkState.FAILED)
    return not is_away and max(ages, default=0.0) <= AGED_S


def _check_states(states: frozenset[str], *, of_topic: bool) -> None:
    known = [str(state) for state in (LaneState if of_topic else (*LinkState, *PairState))]
    for name in sorted(states - set(known)):
        near = get_close_matches(name, known, n=1)
        meant = f"Did you mean {near[0]}? " if near else ""
        which = "topics" if of_topic else "links"
        raise ConfigError(
            f"{name or 'nothing'} is no state of {which}", field="--for", hint=f"{meant}There are {', '.join(known)}."
        )
