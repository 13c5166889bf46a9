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


def hold(contender: str, folder: Path) -> None:
    """Two minutes of what follows from the seed break no invariant; the history is kept where one does."""
    schedule = drawn(SEED, MINUTES, [fault for fault in FAULTS.values() if contender in fault.mirrors])
    run = Run(
        seed=SEED,
        minutes=MINUTES,
        contender=contender,
        schedule=schedule,
        conditions=Conditions.of(SEED).suited_to(contender),
        folder=folder,
    )
    outcome = perform(run, print)

    assert [str(violation) for violation in outcome.violations] == [], run.history
    assert outcome.faults, outcome.notes
    assert outcome.copied > 1_000


@pytest.mark.timeout(1800)
def test_nothing_is_violated_while_faults_of_a_seed_are_done(tmp_path: Path) -> None:
    """A mirror loses, doubles and changes nothing."""
    hold("isthmus", tmp_path)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("contender", ["transform", "sink"])
def test_each_record_is_there_once_as_it_is_to_be(tmp_path: Path, contender: str) -> None:
    """Records that a link changes, and rows that a query writes, come once, whatever is killed and cut meanwhile."""
    hold(contender, tmp_path)
