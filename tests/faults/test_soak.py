"""A short soak with a fixed seed: random faults on real clusters, and the judge finds nothing that did not hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from soak.conditions import Conditions
from soak.faults import FAULTS
from soak.run import Run
from soak.schedule import drawn
from soak.session import perform

SEED = 57
MINUTES = 2.0


@pytest.mark.timeout(1800)
def test_nothing_is_violated_while_faults_of_a_seed_are_done(tmp_path: Path) -> None:
    """Two minutes of what follows from a seed break no invariant; the history is kept where one does."""
    schedule = drawn(SEED, MINUTES, [fault for fault in FAULTS.values() if "isthmus" in fault.mirrors])
    run = Run(
        seed=SEED,
        minutes=MINUTES,
        contender="isthmus",
        schedule=schedule,
        conditions=Conditions.of(SEED),
        folder=tmp_path,
    )
    outcome = perform(run, print)

    assert [str(violation) for violation in outcome.violations] == [], run.history
    assert outcome.faults, outcome.notes
    assert outcome.copied > 1_000
