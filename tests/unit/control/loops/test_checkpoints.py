"""When a checkpoint is written."""

from __future__ import annotations

from isthmus.control.loops.checkpoints import is_news
from isthmus.model.mirrormaker_records import Checkpoint, CheckpointKey

KEY = CheckpointKey("g", "t", 0)
PREVIOUS = Checkpoint(KEY, 100, 200, "of mine")


def test_the_first_one_is_news() -> None:
    """A position that was never told is told."""
    assert is_news(PREVIOUS, None, 500)


def test_the_same_is_told_once() -> None:
    """Nothing is written while nothing changes; other metadata is a change."""
    assert not is_news(PREVIOUS, PREVIOUS, 500)
    assert is_news(Checkpoint(KEY, 100, 200, "of others"), PREVIOUS, 500)


def test_a_group_that_moves_on_is_told() -> None:
    """Also where only the source's position moved: over a record that was not copied."""
    assert is_news(Checkpoint(KEY, 101, 201), PREVIOUS, 500)
    assert is_news(Checkpoint(KEY, 101, 200), PREVIOUS, 500)


def test_only_a_rewound_group_goes_back() -> None:
    """A lower place of the same position or a later one would be a mistake of ours."""
    assert is_news(Checkpoint(KEY, 99, 199), PREVIOUS, 500)
    assert not is_news(Checkpoint(KEY, 100, 199), PREVIOUS, 500)
    assert not is_news(Checkpoint(KEY, 101, 199), PREVIOUS, None)


def test_a_checkpoint_beyond_the_log_does_not_count() -> None:
    """The target topic was made anew: what was told before is of another log."""
    assert is_news(Checkpoint(KEY, 101, 11), PREVIOUS, 11)
