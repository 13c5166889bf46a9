"""What is known of a lane's source: where its log begins and ends, and since when it is silent. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from isthmus.engine.source import Bounds
from isthmus.kafka.log.fetch import Fetched
from isthmus.model.naming import SourceTopic

HEARD_S: Final = 3.0
"""A source without an answer for so long is reported as silent, with the time: a long poll is answered sooner."""


@dataclass(slots=True)
class SourceLog:
    """The source's log as its leader last described it. Offsets are -1 until then.

    `end` is where copying ends now: the last stable offset `stable_end`, or for lanes that copy transactions before
    it is known how they end, the log's end `log_end`. `heard_at` is when the source last answered (monotonic s), not
    before the lane's run began; `silent_ms` is that time by the wall clock once it is long ago, else -1.
    """

    heard_at: float
    start: int = -1
    end: int = -1
    log_end: int = -1
    stable_end: int = -1
    silent_ms: int = -1

    @property
    def bounds(self) -> Bounds:
        """Where copying may begin and end now, and the log's end."""
        return Bounds(self.start, self.end, self.log_end)

    def look(self, found: Bounds, now: float, *, is_whole: bool) -> None:
        """Take a look at the log while nothing of it is read."""
        self.start, self.stable_end, self.log_end = found
        self.end = found.read_end(is_whole=is_whole)
        self.heard_at = now

    def fetch(self, fetched: Fetched[SourceTopic], now: float, *, is_all: bool) -> None:
        """Take the answer to a fetch request; with `is_all`, of uncommitted records too."""
        self.start, self.stable_end, self.log_end = fetched.log_start, fetched.stable_end, fetched.high_watermark
        self.end = fetched.high_watermark if is_all else fetched.stable_end
        self.heard_at = now

    def overhear(self, found: Bounds, asked_at: float, *, is_whole: bool) -> None:
        """Take a look, asked for at `asked_at`, beside a reader whose answers meanwhile are newer: no end becomes less.
        The reader notices a log that became shorter.
        """
        self.end = max(self.end, found.read_end(is_whole=is_whole))
        self.log_end = max(self.log_end, found.log_end)
        self.stable_end = max(self.stable_end, found.stable_end)
        self.heard_at = asked_at

    def check_silence(self, covered_at: float, now: float, now_ms: float) -> None:
        """Set `silent_ms` to the time of the last answer if that is long ago, else to -1. `covered_at` is when an
        answer of the reader last covered the lane, changed or not; `now_ms` is `now` by the wall clock.
        """
        heard_at = max(self.heard_at, covered_at)
        if now - heard_at <= HEARD_S:
            self.silent_ms = -1
        elif self.silent_ms < 0:
            self.silent_ms = int(now_ms - (now - heard_at) * 1000)
