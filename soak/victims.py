"""Topics that a fault makes for itself, because it may end them: each with a writer of its own."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from soak.content import Style
from soak.history import History
from soak.naming import PREFIX
from soak.side import Side
from soak.workloads.plain import Pen, PlainWriter

_RECORDS_PER_S: Final = 40.0


class Victim:
    """A topic of one fault, and who writes it."""

    def __init__(self, topic: str, writer: PlainWriter) -> None:
        self.topic = topic
        self.writer = writer

    @property
    def key(self) -> tuple[str, int]:
        """Its first partition."""
        return self.topic, 0


class Victims:
    """All of a run. Their writers end with it."""

    def __init__(self, source: Side, history: History) -> None:
        self._source, self._history = source, history
        self._writers: list[PlainWriter] = []
        self._lock = threading.Lock()
        self._is_over = False

    @property
    def records(self) -> int:
        """How many records the source has acknowledged."""
        return sum(writer.acks.count for writer in self._writers)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """While the block lasts victims may come; at its end all writers do."""
        try:
            yield
        finally:
            with self._lock:
                self._is_over = True
            for writer in self._writers:
                writer.end()
            for writer in self._writers:
                writer.wait()

    def name(self, label: str, chance: random.Random) -> str:
        """A name for a topic: the same for the same fault of the same schedule."""
        return f"{PREFIX}{label}-{chance.randrange(1 << 20):05x}"

    @contextmanager
    def joined_by_others(self, topic: str, target: Side) -> Iterator[None]:
        """While the block lasts others write to a topic of the target."""
        pen = Pen(
            name=f"stranger-{topic.removeprefix(PREFIX)}",
            topic=topic,
            partitions=1,
            codec="none",
            linger_ms=5,
            records_per_s=_RECORDS_PER_S,
        )
        writer = PlainWriter(pen, target, self._history, "stranger")
        writer.begin()
        try:
            yield
        finally:
            writer.end()
            writer.wait()

    def begin(self, topic: str, *, partitions: int = 1, suffix: str = "", **style: Any) -> Victim:
        """Begin to write a topic that is there."""
        pen = Pen(
            name=topic.removeprefix(PREFIX) + suffix,
            topic=topic,
            partitions=partitions,
            codec="lz4",
            linger_ms=5,
            records_per_s=_RECORDS_PER_S,
            style=Style(value_bytes=150, **style),
        )
        writer = PlainWriter(pen, self._source, self._history)
        with self._lock:
            self._writers.append(writer)
            if not self._is_over:
                writer.begin()
        return Victim(topic, writer)
