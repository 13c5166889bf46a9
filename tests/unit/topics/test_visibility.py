"""How transactions become visible, for every wish and every target."""

from __future__ import annotations

import pytest

from isthmus.model.kafka.transactions import AbortedPolicy, Visibility
from isthmus.topics.aborted import Abilities
from isthmus.topics.visibility import visibility

AUTO, WHOLE, RECORD = Visibility.AUTO, Visibility.WHOLE, Visibility.RECORD
TRUSTING = Abilities(writes_markers=True, verifies=False, tells=True)
VERIFYING = Abilities(writes_markers=True, verifies=True, tells=True)
SILENT = Abilities(writes_markers=True, verifies=None, tells=True)
OLD = Abilities(writes_markers=True, verifies=False, tells=False)
BARRED = Abilities(writes_markers=False, verifies=False, tells=True)


@pytest.mark.parametrize("aborted", AbortedPolicy)
@pytest.mark.parametrize("wanted", Visibility)
def test_whole_is_what_the_target_can_and_the_link_wants(wanted: Visibility, aborted: AbortedPolicy) -> None:
    """Not where aborted records are left out: of an open transaction nobody knows whether they are."""
    is_whole = wanted is not RECORD and aborted is not AbortedPolicy.OMIT
    assert visibility(wanted, aborted, TRUSTING, "west").visibility is (WHOLE if is_whole else RECORD)
    for abilities in (VERIFYING, SILENT, OLD, BARRED):
        assert visibility(wanted, aborted, abilities, "west").visibility is RECORD


@pytest.mark.parametrize(
    ("abilities", "why", "how"),
    [
        (VERIFYING, "verify transactions", "--add-config transaction.partition.verification.enable=false"),
        (SILENT, "do not let us see", "DESCRIBE_CONFIGS"),
        (OLD, "before 3.0", "3.0"),
        (BARRED, "ALTER on the cluster is missing", "ALTER"),
    ],
)
def test_what_stands_in_the_way_is_told(abilities: Abilities, why: str, how: str) -> None:
    """With what changes it; it is a problem only of a link that is to be whole."""
    found = visibility(AUTO, AbortedPolicy.AUTO, abilities, "west")
    assert why in str(found)
    assert how in found.advice
    assert found.problem is None
    problem = visibility(WHOLE, AbortedPolicy.AUTO, abilities, "west").problem
    assert problem is not None
    assert how in problem.hint


def test_what_it_costs_is_told_where_it_is_in_force() -> None:
    """And what would make it whole where only the link's own setting keeps it from that."""
    advice = visibility(AUTO, AbortedPolicy.AUTO, TRUSTING, "west").advice
    assert "round trip" in advice
    assert "transactions.visibility: record" in advice
    assert "auto" in visibility(RECORD, AbortedPolicy.AUTO, TRUSTING, "west").advice
    assert visibility(RECORD, AbortedPolicy.AUTO, VERIFYING, "west").advice == ""


@pytest.mark.parametrize("wanted", Visibility)
def test_lanes_that_have_to_know_how_a_transaction_ends_go_by_records(wanted: Visibility) -> None:
    """Nothing is promised of them, and nothing is advised that would not change it; nor where records are left out."""
    found = visibility(wanted, AbortedPolicy.AUTO, TRUSTING, "west", is_decided=True)
    assert (found.visibility, found.advice) == (RECORD, "")
    assert visibility(wanted, AbortedPolicy.OMIT, TRUSTING, "west").advice == ""
