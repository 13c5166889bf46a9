"""The turns of a lane against a model: one that waits at the same place for two looks is stuck until it advances."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from isthmus.engine.state.schedule import Schedule


class Turns(RuleBasedStateMachine):
    """A lane that reads, waits for an appender, writes, and is looked at now and then."""

    def __init__(self) -> None:
        super().__init__()
        self.schedule = Schedule()
        self.is_queued = self.is_full = self.is_stuck = False
        self.taken = self.position = self.pending = 0
        self.seen: tuple[int, int] | None = None

    @rule(pieces=st.integers(1, 3))
    def read(self, pieces: int) -> None:
        """Reading more is no advance."""
        self.pending += pieces

    @rule(pieces=st.integers(1, 3))
    def write(self, pieces: int) -> None:
        """Written pieces leave the lane."""
        if pieces <= self.pending:
            self.pending, self.taken, self.position = self.pending - pieces, self.taken + pieces, self.position + 1
            self.schedule.advance()
            self.is_stuck = False

    @rule(offsets=st.integers(1, 3))
    def pass_offsets(self, offsets: int) -> None:
        """The position alone may advance, as with control records for a hole."""
        self.position += offsets

    @rule()
    def look(self) -> None:
        """Twice at one place with something to write is stuck."""
        place = (self.taken, self.position) if self.pending else None
        stands_still = place is not None and place == self.seen
        self.seen = place
        self.is_stuck |= stands_still
        assert self.schedule.look(self.taken, self.position, has_pending=bool(self.pending)) == stands_still

    @rule(is_queued=st.booleans())
    def take_turns(self, is_queued: bool) -> None:
        """The appender queues it, and takes it from the queue."""
        (self.schedule.queue if is_queued else self.schedule.unqueue)()
        self.is_queued = is_queued

    @rule(is_full=st.booleans())
    def take_room(self, is_full: bool) -> None:
        """The reader holds it back, and reads on."""
        (self.schedule.fill if is_full else self.schedule.admit)()
        self.is_full = is_full

    @invariant()
    def each_event_changes_one_thing(self) -> None:
        """Neither turns nor room say whether a lane advances."""
        schedule = self.schedule
        assert (schedule.is_queued, schedule.is_full, schedule.is_stuck) == (
            self.is_queued,
            self.is_full,
            self.is_stuck,
        )


TestTurns = Turns.TestCase
