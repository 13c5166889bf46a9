"""Problems as sentences."""

from __future__ import annotations

from isthmus.model.problem import Problem, all_in_full


def test_several_problems_are_a_sentence_with_each_remedy_once() -> None:
    """Remedies are sentences of their own: none stands in the middle of another one."""
    away = [Problem(f"{alias} does not answer", "Start it.") for alias in ("east", "west")]
    told = all_in_full([*away, Problem("north was cut off"), Problem("south is closed", "Open it.")])
    assert told == (
        "east does not answer; west does not answer; north was cut off; south is closed. Start it. Open it."
    )
    assert all_in_full([Problem("north was cut off")]) == "north was cut off"
