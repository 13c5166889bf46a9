"""When a link may be taken from the controller it had: the rules, and a model of one that lives or dies."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from isthmus.ledger.documents.kinds import ControllerDocument
from isthmus.ledger.pulse import BEAT_S, SILENCE_S
from isthmus.model.process.whereabouts import Liveness
from isthmus.run.state.vigil import Turn, Vigil

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
    deaf.note_unreadable()
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


class Waiting(RuleBasedStateMachine):
    """A controller that writes every two seconds until it dies, and a ledger that cannot always be read to its end.

    `quiet_s` is the silence that could have been heard: it does not grow from a look that did not get to the end until
    the next one that did, and begins anew with news, and where the ledger cannot be read.
    """

    @initialize(stands_by=st.booleans())
    def find(self, stands_by: bool) -> None:
        """Its newest document is some time old, which says nothing."""
        self.now = self.beaten_at = 0.0
        self.document = ControllerDocument(link="l", generation=7, beat=30, started_ms=0, host="db1", pid=12)
        self.read = self.document
        self.stands_by = stands_by
        self.vigil = Vigil(self.document, stands_by=stands_by)
        self.is_alive = True
        self.has_ended = self.is_taken = self.is_gone = False
        self.quiet_s: float | None = None
        self.pending_s = 0.0
        self.was_deaf = False

    def wait(self, after_s: int) -> None:
        """Time passes, in which a living controller goes on writing."""
        if not self.was_deaf:
            self.pending_s += after_s
        self.now += after_s
        while self.is_alive and self.now - self.beaten_at >= BEAT_S:
            self.beaten_at += BEAT_S
            self.document = replace(self.document, beat=self.document.beat + 1)

    @precondition(lambda self: not self.has_ended)
    @rule(after_s=st.integers(1, 3))
    def look(self, after_s: int) -> None:
        """The ledger is read to its end."""
        self.wait(after_s)
        self.vigil.hear(self.document)
        self.vigil.note_look(self.now, at_end=True)
        if self.document != self.read:
            self.is_taken, self.is_gone, self.quiet_s = self.is_taken or not self.stands_by, False, None
        self.read = self.document
        self.quiet_s = 0.0 if self.quiet_s is None else self.quiet_s + self.pending_s
        self.pending_s, self.was_deaf = 0.0, False
        self.is_gone |= self.quiet_s >= SILENCE_S

    @precondition(lambda self: not self.has_ended)
    @rule(after_s=st.integers(1, 30))
    def look_in_vain(self, after_s: int) -> None:
        """Brokers hold their answers back."""
        self.wait(after_s)
        self.vigil.note_look(self.now, at_end=False)
        self.was_deaf = True

    @precondition(lambda self: not self.has_ended)
    @rule(after_s=st.integers(1, 30))
    def lose_ledger(self, after_s: int) -> None:
        """It cannot be read at all."""
        self.wait(after_s)
        self.vigil.note_unreadable()
        self.quiet_s, self.pending_s = None, 0.0

    @rule()
    def die(self) -> None:
        """Without a farewell."""
        self.is_alive = False

    @rule(is_meant=st.integers(0, 9))
    def say_farewell(self, is_meant: int) -> None:
        """Once in a while it ends in good order."""
        if not is_meant:
            self.vigil.hear(None)
            self.is_alive, self.has_ended = False, True

    @invariant()
    def turn_is_the_models(self) -> None:
        """A controller that lives was heard, or is waited for; a dead one is gone after ten seconds of silence."""
        turn = Turn.FREE if self.is_gone or self.has_ended else Turn.WAIT
        assert self.vigil.turn(Liveness.UNKNOWN) is (Turn.TAKEN if self.is_taken else turn)
        assert self.is_taken or not (self.is_alive and self.is_gone)


TestWaiting = Waiting.TestCase
