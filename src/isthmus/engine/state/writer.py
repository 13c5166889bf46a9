"""Compare-and-append: decides which request may be sent to one target partition, and judges each answer. No I/O.

Kafka's idempotence check becomes a compare-and-append when the sequence of a record follows from its offset: one
producer id for the link, one constant epoch, `sequence = offset - unsequenced` modulo 2^31, where `unsequenced` counts
the offsets that took no sequence of ours (control records, aborted data under a transaction of its own). While the
leader keeps our producer's state, it refuses gaps, stale replays and zombies (45) and makes an exact retry a no-op.

That state is not kept for ever: it expires when the timestamp of its last batch is older than
`producer.id.expiration.ms`, so it is absent while old data is copied, and a single old record ends it. Without it only
a single writer that settles after every abandoned request is exact. So this one always settles, and sends nothing again
before it has asked for the end of the log; the broker's own check is the second line of defence.

A request is sent behind unanswered ones only while the leader certainly keeps that state, whichever of them it appended
last. Then, if one fails, the leader refuses those behind it; without the state it would append them in its place.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from isthmus.kafka import codes
from isthmus.kafka.batches.batch import SEQUENCE_MASK

DEPTH: Final = 5
"""Requests in flight at most: as many batches of a producer as a leader remembers. A broker works on one request of a
connection at a time; the others keep it busy while we decode an answer of the source."""
_LIVE_SHARE: Final = 0.75
_LIVE_MARGIN_MS: Final = 600_000
"""A margin for clocks that differ, and for requests that are on their way for long."""


class AppendVerdict(enum.Enum):
    """The meaning of a broker's answer, and the next step that it requires."""

    ADVANCED = enum.auto()
    """The bytes are in the log at the right offset."""
    RESOLVE = enum.auto()
    """Ask the log where it ends before anything else is sent."""
    TOO_LARGE = enum.auto()
    """Nothing was appended; the batch has to be split."""
    DENIED = enum.auto()
    """Nothing was appended; a right is missing."""
    REFUSED = enum.auto()
    """Nothing was appended; the broker does not accept this batch."""
    RECREATED = enum.auto()
    """Nothing was appended; the topic is another one now."""
    BROKEN = enum.auto()
    """The bytes were appended at another offset: another producer writes to the partition."""


class Placement(enum.Enum):
    """Whether a look at the target's log gives the writer its position."""

    READY = enum.auto()
    SETTLE = enum.auto()
    """An abandoned request may still arrive: look again after the settling time."""
    WAIT = enum.auto()
    """Not everything in the log is replicated yet: look again soon."""


_VERDICTS: Final = {
    codes.MESSAGE_TOO_LARGE: AppendVerdict.TOO_LARGE,
    codes.RECORD_LIST_TOO_LARGE: AppendVerdict.TOO_LARGE,
    codes.TOPIC_AUTHORIZATION_FAILED: AppendVerdict.DENIED,
    codes.CLUSTER_AUTHORIZATION_FAILED: AppendVerdict.DENIED,
    codes.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: AppendVerdict.DENIED,
    codes.CORRUPT_MESSAGE: AppendVerdict.REFUSED,
    codes.INVALID_TIMESTAMP: AppendVerdict.REFUSED,
    codes.UNSUPPORTED_COMPRESSION_TYPE: AppendVerdict.REFUSED,
    codes.INVALID_RECORD: AppendVerdict.REFUSED,
    codes.UNKNOWN_TOPIC_ID: AppendVerdict.RECREATED,
    codes.INCONSISTENT_TOPIC_ID: AppendVerdict.RECREATED,
}
EXPLAINED: Final = frozenset(_VERDICTS)
"""Error codes with a verdict of their own. For a batch behind one that failed they prove nothing: look at the log."""


@dataclass(frozen=True, slots=True)
class ProducerState:
    """The state that the leader keeps of a producer of ours (DescribeProducers).

    `transaction_start` is where its open transaction begins, -1 without one.
    """

    epoch: int
    last_sequence: int
    transaction_start: int = -1


@dataclass(frozen=True, slots=True)
class LogLook:
    """One look at the target's log in the current leader epoch. `producer` is None when the leader keeps no state.

    `coordinator_epoch` is the largest of all control records that the leader knows of. `leader_epoch` is -1 where the
    leader has none. `alone` holds the state of producers that no coordinator knows; with `others_open` a producer that
    a coordinator may know has a transaction open.
    """

    log_end: int
    high_watermark: int
    producer: ProducerState | None
    coordinator_epoch: int = -1
    leader_epoch: int = -1
    alone: Mapping[int, ProducerState] = field(default_factory=dict)
    others_open: bool = False


class Sent(NamedTuple):
    """A request in flight: the offsets of its records, `[offset, offset_end)`, and their largest timestamp in ms."""

    offset: int
    offset_end: int
    max_timestamp: int


class Writer:
    """The writing side of one lane.

    `position` is the next offset to write: everything before it is durable. It is -1 until the log was looked at.
    `abandoned` means that a request of ours, or of an earlier owner, may still be on its way, and `is_untold` that no
    answer has confirmed the last requests. A broker that muted the connection over a quota may read such a request as
    late as `held_until` (by the monotonic clock). `expiration_ms` is the target's `producer.id.expiration.ms`, 0 where
    it is not known. With `is_mapped` the offsets are ordinals, and records are appended wherever the log ends.
    """

    __slots__ = (
        "_flying",
        "_is_mapped",
        "_last_end",
        "_live_ms",
        "_live_until_ms",
        "abandoned",
        "held_until",
        "is_untold",
        "position",
        "truncated_from",
        "unsequenced",
    )

    def __init__(self, *, abandoned: bool, expiration_ms: int = 0, is_mapped: bool = False) -> None:
        self._is_mapped = is_mapped
        self._last_end = -1
        self._live_ms = min(expiration_ms * _LIVE_SHARE, expiration_ms - _LIVE_MARGIN_MS)
        self._live_until_ms = 0.0
        self._flying: deque[Sent] = deque()
        self.position = -1
        self.unsequenced = 0
        self.abandoned = abandoned
        self.is_untold = False
        self.held_until = 0.0
        self.truncated_from: int | None = None

    @property
    def in_flight(self) -> bool:
        """Whether a request has no answer yet."""
        return bool(self._flying)

    @property
    def next_offset(self) -> int:
        """The offset of the next request if all in flight arrive."""
        return self._flying[-1].offset_end if self._flying else self.position

    @property
    def sequence(self) -> int:
        """The sequence of the record at `next_offset`."""
        return (self.next_offset - self.unsequenced) & SEQUENCE_MASK

    def may_send(self, now_ms: float) -> bool:
        """Whether a request for `next_offset` may be sent: none in flight, or none failed and the leader knows us."""
        flying = self._flying
        return not flying or (
            len(flying) < DEPTH and flying[0].offset == self.position and now_ms < self._live_until_ms
        )

    def takes(self, offset: int, sequence: int, now_ms: float) -> bool:
        """Whether records that begin at `offset`, with `sequence`, are the next ones, and may be sent."""
        return (
            self.next_offset == offset
            and (offset - self.unsequenced) & SEQUENCE_MASK == sequence
            and self.may_send(now_ms)
        )

    def sent(self, records: int = 0, max_timestamp: int = -1) -> None:
        """Note that a request for `next_offset` was sent."""
        offset = self.next_offset
        self._flying.append(Sent(offset, offset + records, max_timestamp))
        self.is_untold = True
        live_until_ms = max_timestamp + self._live_ms
        if live_until_ms < self._live_until_ms:
            self._live_until_ms = live_until_ms

    def answered(self, error_code: int, base_offset: int) -> AppendVerdict:
        """Take the answer to the oldest request in flight. An error proves nothing about earlier requests."""
        sent = self._flying.popleft()
        if error_code == codes.NONE and base_offset != sent.offset and not self._is_mapped:
            return AppendVerdict.BROKEN
        if sent.offset != self.position:
            # The request before it failed: look at the log.
            return AppendVerdict.RESOLVE
        if error_code == codes.NONE:
            self.position = sent.offset_end
            if not self._flying:
                # Else the oldest timestamp sent since none was in flight counts: that is on the safe side, and cheap.
                self._live_until_ms = sent.max_timestamp + self._live_ms
                self.is_untold = False
            return AppendVerdict.ADVANCED
        return _VERDICTS.get(error_code, AppendVerdict.RESOLVE)

    def advanced_unsequenced(self, offsets: int) -> None:
        """Advance by `offsets` appended at `position` under another producer: control records or aborted data."""
        self._flying.clear()
        self.position += offsets
        self.unsequenced += offsets

    def refused(self) -> None:
        """Note the answer that no request in flight was appended."""
        self._flying.clear()

    def take_over(self, *, abandoned: bool) -> None:
        """Begin to write, after a previous owner that may have `abandoned` requests."""
        self.abandoned = abandoned

    def inherit(self, former: Writer) -> None:
        """Take over the settling state of a former writer of the same partition, which has no requests in flight."""
        self.abandoned |= former.abandoned
        self.held_until = max(self.held_until, former.held_until)

    def abandon(self, held_until: float = 0.0) -> None:
        """Give up the answers to the requests in flight: these may be in the log, or be appended later, as late as
        `held_until` where the broker has muted the connection (KIP-219).
        """
        self._flying.clear()
        self.abandoned = True
        self.held_until = max(self.held_until, held_until)

    def looked(self, look: LogLook, *, settled: bool) -> Placement:
        """Take a look at the log; `READY` sets `position` to its end.

        `settled` means that the settling time has passed since the look that last asked for it, on a broker that
        answered that look.
        """
        self._live_until_ms = 0.0
        moved = look.log_end != self._last_end
        self._last_end = look.log_end
        # First, so that the settling time starts again whenever the end moved, replicated or not.
        if self.abandoned and (moved or not settled):
            return Placement.SETTLE
        # Readers of an earlier leader could make the high watermark larger than the end read before it, hence `<`.
        if look.high_watermark < look.log_end:
            return Placement.WAIT
        self.abandoned = False
        self._adopt(look)
        self.truncated_from = self.position if look.log_end < self.position else None
        self.position = look.log_end
        return Placement.READY

    def placed(self, position: int) -> None:
        """Continue at `position`: everything before it is in the log, and no request of ours is on its way."""
        self._live_until_ms = 0.0
        self.position = position
        self.abandoned = self.is_untold = False

    def _adopt(self, look: LogLook) -> None:
        state = look.producer
        if state is None or state.last_sequence < 0:
            # The broker accepts any sequence now.
            self.unsequenced = 0
        else:
            self.unsequenced = (look.log_end - 1 - state.last_sequence) & SEQUENCE_MASK
