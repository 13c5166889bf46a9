"""When a link may be taken from the controller it had: the rules, without clock and brokers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from isthmus.errors import ConfigError
from isthmus.ledger.documents.kinds import ControllerDocument
from isthmus.ledger.link import BEAT_S, SILENCE_S
from isthmus.model.process.whereabouts import Liveness
from isthmus.run.succession import Turn, Vigil, WhenOccupied

FOUND = ControllerDocument(link="l", generation=7, beat=30, started_ms=0, host="db1", pid=12)
AT_S = 1000.0
"""The monotonic time at which the successor first knew all there was in the ledger."""


def vigil() -> Vigil:
    """A controller was found, and the ledger read to its end."""
    found = Vigil(FOUND)
    found.note_look(AT_S, at_end=True)
    return found


def test_a_known_end_is_not_waited_for() -> None:
    """A dead process and a farewell need no silence."""
    assert vigil().turn(Liveness.DEAD) is Turn.FREE
    ended = vigil()
    ended.hear(None)
    assert ended.turn(Liveness.UNKNOWN) is Turn.FREE


def test_silence_makes_the_link_free() -> None:
    """Ten seconds of it: also where the process is known to exist, as it may be frozen."""
    for liveness in (Liveness.ALIVE, Liveness.UNKNOWN):
        silent = vigil()
        silent.note_look(AT_S + SILENCE_S - 0.1, at_end=True)
        assert silent.turn(liveness) is Turn.WAIT
        silent.note_look(AT_S + SILENCE_S, at_end=True)
        assert silent.turn(liveness) is Turn.FREE


def test_a_new_beat_means_that_it_runs() -> None:
    """However long it was silent; and nothing that is heard later changes that."""
    for document in (replace(FOUND, beat=31), replace(FOUND, generation=8, beat=1)):
        alive = vigil()
        alive.note_look(AT_S + SILENCE_S - 1, at_end=True)
        alive.hear(document)
        assert alive.turn(Liveness.UNKNOWN) is Turn.TAKEN
        assert alive.controller == document
        alive.hear(None)
        assert alive.turn(Liveness.UNKNOWN) is Turn.TAKEN


def test_what_is_written_once_more_is_no_new_beat() -> None:
    """A ledger that is written down again, or read from its beginning, says the same again."""
    again = vigil()
    again.hear(FOUND)
    again.note_look(AT_S + SILENCE_S, at_end=True)
    assert again.turn(Liveness.UNKNOWN) is Turn.FREE


def test_silence_counts_only_while_something_could_be_heard() -> None:
    """Time in which the ledger was away, or was not read to its end, says nothing of the controller."""
    deaf = vigil()
    deaf.note_look(AT_S + 9, at_end=True)
    deaf.unreadable()
    assert deaf.turn(Liveness.UNKNOWN) is Turn.WAIT
    deaf.note_look(AT_S + 20, at_end=False)
    assert deaf.turn(Liveness.UNKNOWN) is Turn.WAIT
    deaf.note_look(AT_S + 21, at_end=True)
    deaf.note_look(AT_S + 21 + SILENCE_S - 0.1, at_end=True)
    assert deaf.turn(Liveness.UNKNOWN) is Turn.WAIT
    deaf.note_look(AT_S + 21 + SILENCE_S, at_end=True)
    assert deaf.turn(Liveness.UNKNOWN) is Turn.FREE


def test_silence_does_not_count_while_brokers_hold_their_answers_back() -> None:
    """The controller may be held back too; between such looks it still counts, or a dead one would be waited for."""
    muted = vigil()
    muted.note_look(AT_S, at_end=True)
    for at in range(0, 18, 2):
        muted.note_look(AT_S + at + 1, at_end=False)
        muted.note_look(AT_S + at + 2, at_end=True)
        assert muted.turn(Liveness.UNKNOWN) is Turn.WAIT
    muted.note_look(AT_S + 19, at_end=True)
    assert muted.turn(Liveness.UNKNOWN) is Turn.FREE


def test_a_controller_that_said_that_it_is_held_back_is_given_longer() -> None:
    """A quota keeps its beats from the ledger for as long as it said: that is no end, nor a doubt."""
    held = Vigil(replace(FOUND, held_s=30.0), stands_by=True)
    held.note_look(AT_S, at_end=True)
    assert not held.is_quiet(AT_S + 30)
    held.note_look(AT_S + 30 + SILENCE_S - 0.1, at_end=True)
    assert held.turn(Liveness.UNKNOWN) is Turn.WAIT
    held.note_look(AT_S + 30 + SILENCE_S, at_end=True)
    assert held.turn(Liveness.UNKNOWN) is Turn.FREE


def test_a_controller_is_in_doubt_once_beats_fail_to_come() -> None:
    """Two of them, and only while they could be heard."""
    found = Vigil(FOUND, stands_by=True)
    assert not found.is_quiet(AT_S + SILENCE_S)
    found.note_look(AT_S, at_end=True)
    assert not found.is_quiet(AT_S + 2 * BEAT_S)
    assert found.is_quiet(AT_S + 2 * BEAT_S + 0.1)
    found.hear(replace(FOUND, beat=31))
    assert not found.is_quiet(AT_S + SILENCE_S)


def test_who_stands_by_waits_for_whoever_is_heard() -> None:
    """Every new beat begins the silence anew, also that of another controller; a farewell ends the wait at once."""
    standing = Vigil(FOUND, stands_by=True)
    standing.note_look(AT_S, at_end=True)
    second = replace(FOUND, generation=8, beat=1)
    standing.hear(second)
    assert (standing.turn(Liveness.UNKNOWN), standing.controller) == (Turn.WAIT, second)
    standing.note_look(AT_S + 8, at_end=True)
    standing.note_look(AT_S + 8 + SILENCE_S - 0.1, at_end=True)
    assert standing.turn(Liveness.UNKNOWN) is Turn.WAIT
    standing.note_look(AT_S + 8 + SILENCE_S, at_end=True)
    assert standing.turn(Liveness.UNKNOWN) is Turn.FREE
    ended = Vigil(FOUND, stands_by=True)
    ended.hear(replace(FOUND, beat=31))
    ended.hear(None)
    assert ended.turn(Liveness.UNKNOWN) is Turn.FREE
    ended.hear(second)
    assert ended.turn(Liveness.UNKNOWN) is Turn.WAIT, "somebody else was quicker"


def test_a_run_takes_over_or_stands_by() -> None:
    """Both at once is no way to go, and is refused."""
    assert WhenOccupied.of(take_over=False, standby=False) is WhenOccupied.LEAVE
    assert WhenOccupied.of(take_over=True, standby=False) is WhenOccupied.TAKE_OVER
    assert WhenOccupied.of(take_over=False, standby=True) is WhenOccupied.STAND_BY
    with pytest.raises(ConfigError, match="not both"):
        WhenOccupied.of(take_over=True, standby=True)
