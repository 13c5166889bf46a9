"""A short soak of a fixed seed: what the judge asks of long ones holds in this one."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Final

import pytest

import soak.faults  # noqa: F401  # enters all faults into the catalogue
from soak.conditions import Conditions
from soak.faults.catalogue import FAULTS
from soak.schedule import Action, Schedule
from soak.session import Run, perform

pytestmark = [pytest.mark.faults, pytest.mark.timeout(1800)]

SEED: Final = 7
BOUTS: Final = (("target-leader-killed", "driver-killed"), ("target-applied-unanswered", "source-leader-frozen"))


def test_two_bouts_of_faults(tmp_path: Path) -> None:
    """A leader and the driver are killed, answers are lost while the source stands still, and every invariant holds."""
    numbers = itertools.count()
    schedule = Schedule(bouts=tuple(tuple(action(name, next(numbers)) for name in bout) for bout in BOUTS))
    run = Run(
        seed=SEED,
        minutes=0.0,
        is_whole=True,
        contender="isthmus",
        schedule=schedule,
        conditions=Conditions(),
        folder=tmp_path,
    )
    outcome = perform(run, lambda _: None)
    assert not outcome.violations, "\n".join(map(str, outcome.violations))
    assert not outcome.notes, outcome.notes
    assert outcome.records > 0


def action(name: str, number: int) -> Action:
    """The shortest form of a fault."""
    fault = FAULTS[name]
    return Action(number=number, fault=name, row=fault.row, after_s=0.0, lasts_s=fault.lasts_s[0], seed=SEED)
