"""What ledgers say of clients that move: which word counts, and where clients are by now."""

from __future__ import annotations

import pytest

from isthmus.ledger.documents.moves import MoveDocument, MovesAway, arrived_by
from isthmus.model.gateways.moves import MoveStep

FENCE, OFF, SERVE = MoveStep.FENCE, MoveStep.OFF, MoveStep.SERVE


def said(move: str, step: MoveStep, stay: int = 1, *, source: str = "east", target: str = "west") -> MoveDocument:
    """A word on a move."""
    return MoveDocument(
        source=source, source_alias=source, target=target, target_alias=target, link="orders", move=move, step=step,
        stay=stay, first_node=1, by="me", since_ms=0,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("words", "counts"),
    [
        ([said("a", FENCE), said("a", FENCE), said("a", SERVE)], [True, True, True]),
        ([said("a", FENCE), said("a", OFF), said("a", SERVE)], [True, True, False]),
        ([said("a", FENCE), said("a", SERVE), said("a", OFF), said("a", FENCE)], [True, True, False, False]),
        ([said("a", FENCE), said("b", FENCE), said("a", FENCE), said("a", SERVE)], [True, True, False, False]),
        ([said("a", FENCE), said("b", FENCE), said("a", OFF), said("b", SERVE)], [True, True, False, True]),
        ([said("a", FENCE), said("a", SERVE), said("b", FENCE), said("b", SERVE)], [True, True, False, False]),
        ([said("a", FENCE), said("a", OFF), said("b", FENCE), said("b", SERVE)], [True, True, True, True]),
        ([said("a", SERVE), said("b", FENCE, 3), said("b", OFF, 3)], [True, True, True]),
        ([said("a", SERVE)], [True]),
    ],
)
def test_the_first_word_that_ends_a_move_counts(words: list[MoveDocument], counts: list[bool]) -> None:
    """So does whatever was compacted away before it; a move whose place another one has taken is over."""
    away = MovesAway()
    assert [away.take(each) for each in words] == counts


@pytest.mark.parametrize(
    ("moves", "place"),
    [
        ([], None),
        ([("east", "west", 1)], ("west", 1)),
        ([("east", "west", 1), ("west", "east", 2)], ("east", 2)),
        ([("west", "east", 2)], ("east", 2)),
        ([("east", "west", 3), ("west", "east", 2)], ("west", 3)),
        ([("east", "west", 1), ("west", "south", 2)], ("south", 2)),
        ([("east", "west", 1), ("south", "east", 3)], ("east", 3)),
        ([("west", "south", 1)], None),
    ],
)
def test_where_clients_are(moves: list[tuple[str, str, int]], place: tuple[str, int] | None) -> None:
    """They have gone on from cluster to cluster; what was left in the meantime, or is not known any more, is passed."""
    found = arrived_by("east", [said("m", SERVE, stay, source=one, target=to) for one, to, stay in moves])
    assert (None if found is None else (found.target, found.stay)) == place
