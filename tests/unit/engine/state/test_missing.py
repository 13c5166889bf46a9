"""The offsets without a record against a model: fillers in the log stay known until they are deleted."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from isthmus.engine.state.missing import Missing, Prefix
from isthmus.model.lane import Gap


class Filling(RuleBasedStateMachine):
    """A lane whose source deletes and compacts."""

    def __init__(self) -> None:
        super().__init__()
        self.missing = Missing()
        self.prefix: tuple[int, bool] | None = None
        self.holes = 0
        self.gaps: list[Gap] = []

    @rule(end=st.integers(1, 50), is_stored=st.booleans())
    def fill_prefix(self, end: int, is_stored: bool) -> None:
        """The source deletes more before the fillers have reached its begin."""
        self.missing.fill_prefix(end, is_stored=is_stored)
        self.prefix = end, is_stored or (self.prefix is not None and self.prefix[1])

    @rule()
    def drop_prefix(self) -> None:
        """The target has deleted them."""
        self.missing.drop_prefix()
        self.prefix = None

    @rule(offsets=st.integers(1, 9))
    def count_holes(self, offsets: int) -> None:
        """Compaction left nothing there."""
        self.missing.count_holes(offsets)
        self.holes += offsets

    @rule(begin=st.integers(0, 3), length=st.integers(1, 3))
    def pass_gap(self, begin: int, length: int) -> None:
        """The same gap may be found again by each look."""
        gap = Gap(begin, begin + length)
        self.missing.pass_gap(gap)
        self.gaps += [] if gap in self.gaps else [gap]

    @invariant()
    def what_is_missing_is_known(self) -> None:
        """Each gap once, in the order in which they were found."""
        missing = self.missing
        assert missing.prefix == (None if self.prefix is None else Prefix(*self.prefix))
        assert (missing.holes, missing.gaps) == (self.holes, self.gaps)
        assert missing.gap_end == (self.gaps[-1].offset_end if self.gaps else -1)


TestFilling = Filling.TestCase
