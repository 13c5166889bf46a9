"""What becomes of aborted records, for every wish and every target."""

from __future__ import annotations

import pytest

from isthmus.model.kafka.transactions import AbortedPolicy
from isthmus.topics.aborted import Abilities, treatment

AUTO, COPY, OMIT = AbortedPolicy.AUTO, AbortedPolicy.COPY, AbortedPolicy.OMIT
TRUSTING = Abilities(writes_markers=True, verifies=False, tells=True)
VERIFYING = Abilities(writes_markers=True, verifies=True, tells=True)
SILENT = Abilities(writes_markers=True, verifies=None, tells=True)
OLD = Abilities(writes_markers=True, verifies=False, tells=False)
BARRED = Abilities(writes_markers=False, verifies=False, tells=True)


@pytest.mark.parametrize(
    ("abilities", "auto"),
    [(TRUSTING, COPY), (VERIFYING, OMIT), (SILENT, OMIT), (OLD, OMIT), (BARRED, COPY)],
)
def test_auto_copies_only_where_that_is_exact(abilities: Abilities, auto: AbortedPolicy) -> None:
    """But without the right to write control records nothing is exact, and copying needs the fewest of them."""
    assert treatment(AUTO, abilities, "west").policy is auto
    assert treatment(COPY, abilities, "west").policy is COPY
    assert treatment(OMIT, abilities, "west").policy is OMIT


def test_a_risk_is_told_with_the_way_out() -> None:
    """Where coordinators write control records a partition may stop; nowhere else."""
    risks = {
        (wanted, name)
        for wanted in AbortedPolicy
        for name, abilities in {"T": TRUSTING, "V": VERIFYING, "S": SILENT, "O": OLD, "B": BARRED}.items()
        if treatment(wanted, abilities, "west").risk is not None
    }
    assert risks == {(COPY, "V"), (COPY, "S"), (COPY, "O"), (AUTO, "B"), (COPY, "B"), (OMIT, "B")}
    (barred, verifying) = (treatment(COPY, abilities, "west").risk for abilities in (BARRED, VERIFYING))
    assert barred is not None
    assert "Grant ALTER on the cluster" in barred.hint
    assert verifying is not None
    assert "auto" in verifying.hint


def test_who_leaves_out_unasked_says_how_it_would_copy() -> None:
    """The setting, the right or the release that decides; nothing where it was the operator's choice."""
    assert "transaction.partition.verification.enable=false" in treatment(AUTO, VERIFYING, "west").advice
    assert "DESCRIBE_CONFIGS" in treatment(AUTO, SILENT, "west").advice
    assert "3.0" in treatment(AUTO, OLD, "west").advice
    assert treatment(OMIT, VERIFYING, "west").advice == ""
    assert str(treatment(AUTO, VERIFYING, "west")) == (
        "aborted records are left out: west does not take them exactly once, as its brokers verify transactions"
    )
