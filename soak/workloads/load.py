"""All that goes on at the source during a run: follows from the seed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from soak.content import Style
from soak.history import History
from soak.scene import create_topic
from soak.side import Side
from soak.workloads.plain import CODECS, Pen, PlainWriter

PREFIX: Final = "soak."
_DAY_MS: Final = 86_400_000
_PARTITIONS: Final = 3
_RECORDS_PER_S: Final = 30.0
_SMALL_MS, _LARGE_MS = 2, 400


class Load:
    """Topics of the source and who writes them. `topics` are those every fault may choose from."""

    def __init__(self, source: Side, history: History, seed: int) -> None:
        chance = random.Random(f"load {seed}")
        self.topics = [f"{PREFIX}plain", f"{PREFIX}mixed", f"{PREFIX}old"]
        self._source, self._history = source, history
        self._writers = [PlainWriter(pen, source.servers, history) for pen in _pens(chance)]

    @property
    def records(self) -> int:
        """How many records the source has acknowledged."""
        return sum(writer.acks.count for writer in self._writers)

    def prepare(self) -> None:
        """Create the topics.

        :raises KafkaException: The source refused.
        """
        for topic in self.topics:
            create_topic(self._source, topic, partitions=_PARTITIONS)

    @contextmanager
    def flowing(self) -> Iterator[None]:
        """Everything at work; at the end all that was sent was delivered, or given up."""
        for writer in self._writers:
            writer.begin()
        try:
            yield
        finally:
            for writer in self._writers:
                writer.end()
            for writer in self._writers:
                writer.wait()


def _pens(chance: random.Random) -> Iterator[Pen]:
    """A writer for each codec, with small or large batches; and one whose records are older than producers live."""
    for number, codec in enumerate(CODECS):
        is_small = chance.random() < 0.5
        yield Pen(
            name=f"w{number}",
            topic=f"{PREFIX}plain" if number < 3 else f"{PREFIX}mixed",
            partitions=_PARTITIONS,
            codec=codec,
            linger_ms=_SMALL_MS if is_small else _LARGE_MS,
            records_per_s=_RECORDS_PER_S if is_small else 2 * _RECORDS_PER_S,
            style=Style(value_bytes=100 if is_small else 2_000),
        )
    yield Pen(
        name="old",
        topic=f"{PREFIX}old",
        partitions=_PARTITIONS,
        codec=chance.choice(CODECS),
        linger_ms=50,
        records_per_s=_RECORDS_PER_S,
        style=Style(value_bytes=400, age_ms=3 * _DAY_MS),
    )
