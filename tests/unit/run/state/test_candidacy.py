"""The candidacy for a link against a model of its ledger: it is free only while no other process was heard."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from isthmus.errors import ConfigError, Occupied
from isthmus.ledger.documents.kinds import ControllerDocument
from isthmus.ledger.pulse import SILENCE_S
from isthmus.model.process.whereabouts import Liveness
from isthmus.run.state.candidacy import Candidacy, WhenOccupied
from isthmus.run.state.vigil import Turn

FOUND = ControllerDocument(link="l", generation=1, beat=1, started_ms=0, host="db1", pid=12)


class Succeeding(RuleBasedStateMachine):
    """A process that looks at a ledger again and again, in which others, and itself, have begun generations.

    `outlasted` is the newest document of the last controller that it has waited for until that was gone.
    """

    @initialize(when=st.sampled_from(WhenOccupied))
    def begin(self, when: WhenOccupied) -> None:
        """As an operator has asked for."""
        self.when = when
        self.candidacy = Candidacy(when, SILENCE_S)
        self.there: ControllerDocument | None = None
        self.own: set[int] = set()
        self.generation = 0
        self.outlasted: ControllerDocument | None = None
        self.turn = Turn.WAIT
        self.now = 0.0

    @rule(is_own=st.booleans())
    def fence(self, is_own: bool) -> None:
        """Another process, or this one, takes the link."""
        self.generation += 1
        self.there = replace(FOUND, generation=self.generation)
        if is_own:
            self.own.add(self.generation)
            self.candidacy.fence(self.generation)
            self.candidacy.take()
            self.when = WhenOccupied.LEAVE if self.when is WhenOccupied.TAKE_OVER else self.when

    @precondition(lambda self: self.there is not None)
    @rule()
    def beat(self) -> None:
        """The controller of the link lives."""
        assert self.there is not None
        self.there = replace(self.there, beat=self.there.beat + 1)

    @rule()
    def say_farewell(self) -> None:
        """Its document is gone."""
        self.there = None

    @rule(end=st.sampled_from(["silent", "beats", "dead", "ledger lost"]))
    def look(self, end: str) -> None:
        """At the newest controller; if it is to be waited for, until it is known what became of it."""
        known, others = self.outlasted, self.there is not None and self.there.generation not in self.own
        is_same = known is not None and self.there is not None and known.generation == self.there.generation
        is_asked = self.when is not WhenOccupied.TAKE_OVER
        if not others or not is_asked or (is_same and known == self.there):
            assert self.candidacy.find(self.there) is None
            self.turn = Turn.FREE
        elif is_same and self.when is WhenOccupied.LEAVE:
            with pytest.raises(Occupied):
                self.candidacy.find(self.there)
            self.turn = Turn.TAKEN
        else:
            self.keep_vigil(end)

    def keep_vigil(self, end: str) -> None:
        """The last beat, or silence, or a process that is known to be dead decides; without the ledger nothing does."""
        vigil = self.candidacy.find(self.there)
        assert vigil is not None
        assert self.candidacy.is_standing_by == (self.when is WhenOccupied.STAND_BY)
        assert self.candidacy.turn is Turn.WAIT
        vigil.note_look(self.now, at_end=True)
        if end == "beats":
            self.beat()
            vigil.hear(self.there)
            vigil.note_look(self.now, at_end=True)
        if end in ("silent", "beats"):
            self.now += SILENCE_S
            vigil.note_look(self.now, at_end=True)
            assert self.candidacy.is_in_doubt(self.now)
        self.turn = vigil.turn(Liveness.DEAD if end == "dead" else Liveness.UNKNOWN)
        if self.turn is Turn.TAKEN:
            with pytest.raises(Occupied):
                self.candidacy.conclude(vigil, self.turn)
            assert (self.when, end) == (WhenOccupied.LEAVE, "beats")
        elif self.turn is Turn.FREE:
            self.candidacy.conclude(vigil, self.turn)
            self.outlasted = self.there
        self.candidacy.leave()

    @invariant()
    def is_free_while_nobody_was_heard(self) -> None:
        """And nobody is waited for between two looks."""
        assert self.candidacy.turn is self.turn
        assert not self.candidacy.is_standing_by
        assert not self.candidacy.is_in_doubt(self.now)


TestSucceeding = Succeeding.TestCase


def test_a_run_takes_over_or_stands_by() -> None:
    """Both at once is no way to go, and is refused."""
    assert WhenOccupied.of(take_over=False, standby=False) is WhenOccupied.LEAVE
    assert WhenOccupied.of(take_over=True, standby=False) is WhenOccupied.TAKE_OVER
    assert WhenOccupied.of(take_over=False, standby=True) is WhenOccupied.STAND_BY
    with pytest.raises(ConfigError, match="not both"):
        WhenOccupied.of(take_over=True, standby=True)
