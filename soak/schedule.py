"""What is done when: follows from a seed, and can be written down, read back and shortened."""

from __future__ import annotations

import json
import random
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from soak.faults.catalogue import Fault

_AT_ONCE_MAX: Final = 3
_APART_S: Final = 8.0
_BOUTS_PER_MINUTE: Final = 3
_SHARE_MAX: Final = 0.25
"""No fault lasts longer than this part of a run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """A fault of a bout, which begins `after_s` seconds into it and lasts `lasts_s`. Its choices follow from `seed`."""

    number: int
    fault: str
    row: int
    after_s: float
    lasts_s: float
    seed: int


Bout = tuple[Action, ...]
"""Faults that overlap. When the last of them is undone all that is mirrored has to recover before the next bout."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """The bouts of a run, in order. How many of them are done is a matter of time."""

    bouts: tuple[Bout, ...]

    @property
    def actions(self) -> tuple[Action, ...]:
        return tuple(action for bout in self.bouts for action in bout)

    def only(self, numbers: Collection[int]) -> Schedule:
        """What is left with these actions alone."""
        kept = (tuple(action for action in bout if action.number in numbers) for bout in self.bouts)
        return replace(self, bouts=tuple(bout for bout in kept if bout))

    def to_json(self) -> str:
        return json.dumps([[asdict(action) for action in bout] for bout in self.bouts])


def drawn(seed: int, minutes: float, faults: Iterable[Fault]) -> Schedule:
    """The schedule of a seed: the faults are dealt like cards, so that none comes again before all have come. The
    shorter the run, the shorter the longest of them.
    """
    chance = random.Random(f"schedule {seed}")
    deck, bouts, number = list(faults), list[Bout](), 0
    hand: list[Fault] = []
    for _ in range(max(round(minutes * _BOUTS_PER_MINUTE), 1) if deck else 0):
        wanted = chance.randint(1, _AT_ONCE_MAX)
        bout: list[Action] = []
        claimed: set[str] = set()
        if len(hand) < _AT_ONCE_MAX:
            hand += chance.sample(deck, len(deck))
        for each in list(hand):
            if len(bout) < wanted and not each.claims & claimed:
                hand.remove(each)
                claimed |= each.claims
                bout.append(_action(chance, each, number, minutes, is_first=not bout))
                number += 1
        bouts.append(tuple(bout))
    return Schedule(bouts=tuple(bouts))


def read_schedule(file: Path) -> Schedule:
    """The schedule that `Schedule.to_json` wrote."""
    return schedule_of(json.loads(file.read_text(encoding="utf-8")))


def schedule_of(document: Sequence[Sequence[dict[str, Any]]]) -> Schedule:
    """A schedule from what `Schedule.to_json` wrote."""
    return Schedule(bouts=tuple(tuple(Action(**each) for each in bout) for bout in document))


def _action(chance: random.Random, fault: Fault, number: int, minutes: float, *, is_first: bool) -> Action:
    low, high = fault.lasts_s
    high = min(high, max(low, minutes * 60 * _SHARE_MAX))
    return Action(
        number=number,
        fault=fault.name,
        row=fault.row,
        after_s=0.0 if is_first else round(chance.uniform(0.0, _APART_S), 1),
        # Short ones as often as long ones, also where some last for minutes.
        lasts_s=round(low * (high / low) ** chance.random(), 1),
        seed=chance.randrange(1 << 30),
    )
