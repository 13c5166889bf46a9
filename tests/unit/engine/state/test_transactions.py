"""The transactions of a lane against a model: no coordinator epoch is used twice, and no end is forgotten."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from isthmus.engine.state.transactions import TargetTransactions
from isthmus.engine.state.writer import LogLook, ProducerState

PRODUCERS = st.sets(st.integers(0, 5), max_size=4)


class Ending(RuleBasedStateMachine):
    """A lane that is looked at, writes control records, and has coordinators end transactions."""

    def __init__(self) -> None:
        super().__init__()
        self.transactions = TargetTransactions(is_whole=True)
        self.is_whole, self.others_open = True, False
        self.ending: set[int] = set()
        self.alone: set[int] = set()
        self.now_s, self.largest = 1_700_000_000.0, -1

    @rule(reported=st.integers(-1, 2**31 - 1000), after_s=st.floats(0, 100))
    def raise_epoch(self, reported: int, after_s: float) -> None:
        """Each look leads to an epoch above all that are known, whatever the clock says."""
        self.now_s += after_s
        before = self.transactions.marker_epoch
        self.transactions.raise_epoch(reported, self.now_s)
        assert self.transactions.marker_epoch > max(before, reported) or self.transactions.marker_epoch == 2**31 - 1

    @rule(epochs=st.integers(1, 50))
    def skip_epochs(self, epochs: int) -> None:
        """The leader knows of a larger one."""
        before = self.transactions.marker_epoch
        self.transactions.skip_epochs(epochs)
        assert self.transactions.marker_epoch == before + epochs

    @rule(producers=PRODUCERS, others_open=st.booleans())
    def look(self, producers: set[int], others_open: bool) -> None:
        """A look counts alone."""
        states = {producer: ProducerState(0, producer) for producer in producers}
        self.transactions.look(LogLook(10, 10, None, alone=states, others_open=others_open))
        self.alone, self.others_open = set(producers), others_open

    @rule(producers=PRODUCERS)
    def outdate(self, producers: set[int]) -> None:
        """Those that have written since are asked for again."""
        self.transactions.outdate(producers)
        self.alone -= producers

    @rule(producers=PRODUCERS)
    def begin_ending(self, producers: set[int]) -> None:
        """Coordinators are asked to end transactions, or were by an owner before."""
        self.transactions.begin_ending(producers)
        self.ending |= producers

    @rule(producer=st.integers(0, 5))
    def end(self, producer: int) -> None:
        """A control record is there."""
        self.transactions.end(producer)
        self.ending.discard(producer)

    @rule()
    def end_all(self) -> None:
        """All are."""
        self.transactions.end_all()
        self.ending.clear()

    @rule()
    def go_by_records(self) -> None:
        """There is no way back."""
        self.transactions.go_by_records()
        self.is_whole = False

    @invariant()
    def each_event_changes_its_own(self) -> None:
        """The lane goes on only if nothing is ending."""
        known = self.transactions
        assert (known.ending, set(known.alone)) == (self.ending, self.alone)
        assert (known.is_whole, known.others_open) == (self.is_whole, self.others_open)


TestEnding = Ending.TestCase
