"""The source's log against a model: the newest look counts, but for what is overheard beside a reader."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from isthmus.engine.source import Bounds
from isthmus.engine.state.source_log import HEARD_S, SourceLog
from isthmus.kafka.log.fetch import Fetched
from isthmus.model.naming import SourceTopic

OFFSETS = st.lists(st.integers(0, 50), min_size=3, max_size=3).map(sorted)
WAITS = st.floats(0.0, 6.0)


class Listening(RuleBasedStateMachine):
    """A lane that reads committed records, or all: answers come, looks are overheard, and silence is reported."""

    def __init__(self) -> None:
        super().__init__()
        self.log = SourceLog(0.0)
        self.now = self.heard_at = 0.0
        self.ends = (-1, -1, -1)
        self.silent_since: float | None = None

    @rule(after_s=WAITS)
    def wait(self, after_s: float) -> None:
        """Time passes."""
        self.now += after_s

    @rule(offsets=OFFSETS, is_whole=st.booleans())
    def look(self, offsets: list[int], is_whole: bool) -> None:
        """Nothing is read: the ends may be less than before, as after a truncation."""
        start, stable_end, log_end = offsets
        self.log.look(Bounds(start, stable_end, log_end), self.now, is_whole=is_whole)
        assert self.log.start == start
        self.ends, self.heard_at = (log_end if is_whole else stable_end, log_end, stable_end), self.now

    @rule(offsets=OFFSETS, is_all=st.booleans())
    def fetch(self, offsets: list[int], is_all: bool) -> None:
        """So does an answer to the reader."""
        start, stable_end, log_end = offsets
        answer = Fetched((SourceTopic("orders"), 0), 0, 0, stable_end, start, -1, [], b"", log_end)
        self.log.fetch(answer, self.now, is_all=is_all)
        assert self.log.start == start
        self.ends, self.heard_at = (log_end if is_all else stable_end, log_end, stable_end), self.now

    @rule(offsets=OFFSETS, is_whole=st.booleans(), took_s=WAITS)
    def overhear(self, offsets: list[int], is_whole: bool, took_s: float) -> None:
        """The reader may have had newer answers meanwhile."""
        start, (_, stable_end, log_end) = self.log.start, offsets
        found = Bounds(offsets[0], stable_end, log_end)
        self.log.overhear(found, self.now - took_s, is_whole=is_whole)
        assert self.log.start == start
        seen = (log_end if is_whole else stable_end, log_end, stable_end)
        readable_end, newest_stable_end, newest_log_end = map(max, self.ends, seen)
        self.ends = readable_end, newest_stable_end, newest_log_end
        self.heard_at = self.now - took_s

    @rule(covered_s=st.none() | WAITS)
    def report(self, covered_s: float | None) -> None:
        """Silent since one moment, the same in each report, until something is heard."""
        covered_at = float("-inf") if covered_s is None else self.now - covered_s
        self.log.check_silence(covered_at, self.now, 1e6 + self.now * 1000)
        heard_at = max(self.heard_at, covered_at)
        if self.now - heard_at <= HEARD_S:
            self.silent_since = None
        elif self.silent_since is None:
            self.silent_since = heard_at
        expected_ms = -1.0 if self.silent_since is None else 1e6 + self.silent_since * 1000
        assert abs(self.log.silent_ms - expected_ms) <= 1

    @invariant()
    def ends_are_the_newest(self) -> None:
        """And bounds show where copying ends."""
        assert (self.log.end, self.log.log_end, self.log.stable_end) == self.ends
        assert self.log.bounds == (self.log.start, self.ends[0], self.ends[1])


TestListening = Listening.TestCase
