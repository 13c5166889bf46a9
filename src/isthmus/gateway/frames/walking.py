"""Find the batches of a Produce request while its bytes pass. Pure.

Only the header of each batch is read; records are neither read nor copied.
"""

from __future__ import annotations

import struct
from collections.abc import Generator
from typing import Final, NamedTuple

from isthmus.kafka.batches.batch import HEADER_BYTES, TRANSACTIONAL

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_HEADER: Final = struct.Struct(">16xb4xhi16xqhi")
"""Fields of the header of a batch: magic, attributes, last offset delta, and the id, epoch and first sequence of its
producer.
"""
_NAME_BYTES_MAX: Final = 0x7FFF
_SHIFT_MAX: Final = 28

_Steps = Generator[int, bytes, None]
"""Yields the number of bytes to read next, or, if negative, to skip."""


class BatchWritten(NamedTuple):
    """The batch of a request for one partition: `records` is the number of its offsets, 0 for a batch that brokers
    reject. The batch begins at `batch_at` of the frame; its producer id is -1 without an idempotent producer.
    """

    topic: str
    partition: int
    records: int
    is_transactional: bool
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    batch_at: int = -1


class ProduceWalk:
    """The walk through one request, from behind its acks on, which is at `begin` of the frame.

    `begun_at` (monotonic s) is when the request came; it may have a `transactional_id`.
    """

    __slots__ = ("_at", "_got", "_need", "_steps", "begun_at", "timeout_ms", "transactional_id", "written")

    def __init__(
        self, begin: int, *, flexible: bool, begun_at: float = 0.0, transactional_id: str | None = None
    ) -> None:
        self.written: list[BatchWritten] = []
        self.timeout_ms = 0
        self.begun_at = begun_at
        self.transactional_id = transactional_id
        self._steps = self._walk(begin, flexible=flexible)
        self._got = bytearray()
        self._at = 0
        self._need = next(self._steps)

    @property
    def is_done(self) -> bool:
        """Whether the request is complete."""
        return not self._need

    def take(self, chunk: memoryview) -> None:
        """Walk on through received bytes.

        :raises ValueError: It is no such request.
        """
        at, end = 0, len(chunk)
        while at < end:
            if not self._need:
                raise ValueError("it goes on where it should end")
            if self._need < 0:
                step = min(-self._need, end - at)
                self._at += step
                self._need += step
                if not self._need:
                    self._go_on(b"")
            else:
                step = min(self._need - len(self._got), end - at)
                self._at += step
                self._got += chunk[at : at + step]
                if len(self._got) == self._need:
                    got, self._got = bytes(self._got), bytearray()
                    self._go_on(got)
            at += step

    def _go_on(self, got: bytes) -> None:
        try:
            self._need = self._steps.send(got)
        except StopIteration:
            self._need = 0

    def _walk(self, begin: int, *, flexible: bool) -> _Steps:
        yield -begin
        (self.timeout_ms,) = _INT32.unpack((yield _INT32.size))
        for _ in range((yield from _count(flexible=flexible))):
            topic = yield from _text(flexible=flexible)
            for _ in range((yield from _count(flexible=flexible))):
                yield from self._partition(topic, flexible=flexible)
                yield from _skip_tags(flexible=flexible)
            yield from _skip_tags(flexible=flexible)
        yield from _skip_tags(flexible=flexible)

    def _partition(self, topic: str, *, flexible: bool) -> _Steps:
        (partition,) = _INT32.unpack((yield _INT32.size))
        size = yield from _count(flexible=flexible)
        written = BatchWritten(topic, partition, 0, is_transactional=False)
        if size >= HEADER_BYTES:
            magic, attributes, last, producer_id, epoch, sequence = _HEADER.unpack_from((yield HEADER_BYTES))
            is_transactional = bool(attributes & TRANSACTIONAL)
            if magic == 2:
                producer = producer_id, epoch, sequence
                written = BatchWritten(
                    topic, partition, max(last + 1, 0), is_transactional, *producer, self._at - HEADER_BYTES
                )
            else:
                written = written._replace(is_transactional=is_transactional)
            size -= HEADER_BYTES
        if size:
            yield -size
        self.written.append(written)


def _uvarint() -> Generator[int, bytes, int]:
    value = shift = 0
    while True:
        (byte,) = yield 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value
        shift += 7
        if shift > _SHIFT_MAX:
            raise ValueError("a number of more than 32 bits")


def _count(*, flexible: bool) -> Generator[int, bytes, int]:
    """Read the length of an array or of bytes, 0 for null."""
    if flexible:
        return max((yield from _uvarint()) - 1, 0)
    (count,) = _INT32.unpack((yield _INT32.size))
    return max(int(count), 0)


def _text(*, flexible: bool) -> Generator[int, bytes, str]:
    size = (yield from _uvarint()) - 1 if flexible else _INT16.unpack((yield _INT16.size))[0]
    if not 0 < size <= _NAME_BYTES_MAX:
        raise ValueError("a name that no topic has")
    return (yield size).decode()


def _skip_tags(*, flexible: bool) -> _Steps:
    if flexible:
        for _ in range((yield from _uvarint())):
            yield from _uvarint()
            size = yield from _uvarint()
            if size:
                yield -size
