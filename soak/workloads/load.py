"""All that goes on at the source during a run: follows from the seed."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Protocol

from confluent_kafka import KafkaException
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, ResourceType

from soak.content import Style
from soak.history import History
from soak.judge.evidence import PartitionKey
from soak.naming import PREFIX
from soak.scene import TERM_S, create_topic
from soak.side import Side
from soak.workloads.groups import Groups
from soak.workloads.plain import CODECS, Acks, Pen, PlainWriter
from soak.workloads.routine import Routine
from soak.workloads.transactional import TransactionalWriter

_READ: Final = (f"{PREFIX}plain", f"{PREFIX}transactions")
_SHARED: Final = (f"{PREFIX}plain", f"{PREFIX}mixed", f"{PREFIX}transactions")
"""Those that others write to at the target, where they may."""
_FIRST: Final = 12
"""So many records they have there before the mirror begins."""
_POLL_S: Final = 0.1
_DAY_MS: Final = 86_400_000
_PARTITIONS: Final = 3
_RECORDS_PER_S: Final = 12.0
_SMALL_MS, _LARGE_MS = 2, 400
_GROUPS: Final = 5
_NEW_EVERY_S: Final = 30.0
_NEW_MAX: Final = 6
_COMPACTED: Final[dict[str, Any]] = {
    "cleanup_policy": "compact",
    "segment_ms": 3_000,
    "min_cleanable_dirty_ratio": 0.01,
    "max_compaction_lag_ms": 10_000,
}

_TUNED: Final[dict[str, tuple[str | None, ...]]] = {
    "segment.bytes": ("2097152", "8388608", None),
    "retention.ms": ("-1", "2592000000"),
    "flush.messages": ("5000", None),
    "delete.retention.ms": ("3600000", None),
    "max.message.bytes": ("2000000", "1500000", None),
}
"""Settings that somebody changes, none of which takes a record away."""
_TUNED_EVERY_S: Final = (5.0, 20.0)


class Worker(Protocol):
    """Something that goes on until it is told to end."""

    def begin(self) -> None: ...
    def end(self) -> None: ...
    def wait(self) -> None: ...


class Load:
    """Topics of the source, who writes them, and who consumes them.

    `topics` are those every fault may choose from, `compacted` those that are cleaned, `groups` read the partitions
    `read`. `ends` tells where partitions of the source end. `shared_with` is a target to some of whose topics others
    write as well, before the mirror does and meanwhile.
    """

    def __init__(
        self,
        source: Side,
        history: History,
        seed: int,
        ends: Callable[[], dict[PartitionKey, int]],
        *,
        shared_with: Side | None = None,
    ) -> None:
        chance = random.Random(f"load {seed}")
        names = ("plain", "mixed", "old", "transactions", "compacted", "growing")
        self.topics = [f"{PREFIX}{name}" for name in names]
        self.compacted = frozenset({f"{PREFIX}compacted"})
        self.groups = [f"{PREFIX}group-{number}" for number in range(_GROUPS)]
        self.read = [(topic, partition) for topic in _READ for partition in range(_PARTITIONS)]
        self._source, self._history = source, history
        writers: list[PlainWriter | TransactionalWriter] = [PlainWriter(pen, source, history) for pen in _pens(chance)]
        writers += [
            TransactionalWriter(f"t{number}", f"{PREFIX}transactions", _PARTITIONS, source.servers, history, seed)
            for number in range(2)
        ]
        self._acks = [writer.acks for writer in writers]
        self._newcomers = Newcomers(source, history, self._acks)
        groups = Groups(self.groups, source.servers, history, lambda: _chosen(ends()), seed)
        tuner = Tuner(f"{PREFIX}mixed", source, history, random.Random(f"settings {seed}"))
        self._workers: list[Worker] = [*writers, self._newcomers, groups, tuner]
        self._shared_with = shared_with
        self._strangers = (
            []
            if shared_with is None
            else [PlainWriter(_stranger(topic), shared_with, history, "stranger") for topic in _SHARED]
        )

    @property
    def shared(self) -> frozenset[str]:
        """The topics to which others write at the target."""
        return frozenset(() if self._shared_with is None else _SHARED)

    @property
    def records(self) -> int:
        """How many records the source has acknowledged."""
        return sum(acks.count for acks in self._acks)

    def prepare(self) -> None:
        """Create the topics.

        :raises KafkaException: A cluster refused.
        :raises TimeoutError: The target takes no records of others.
        """
        for topic in self.topics:
            configs: dict[str, Any] = _COMPACTED if topic in self.compacted else {}
            partitions = 1 if topic.endswith("growing") else _PARTITIONS
            create_topic(self._source, topic, partitions=partitions, **configs)
        if self._shared_with is not None:
            for topic in _SHARED:
                create_topic(self._shared_with, topic, partitions=_PARTITIONS)
        for stranger in self._strangers:
            stranger.begin()
        deadline = time.monotonic() + TERM_S
        while any(stranger.acks.count < _FIRST for stranger in self._strangers):
            if time.monotonic() > deadline:
                raise TimeoutError("the target took no records")
            time.sleep(_POLL_S)

    @contextmanager
    def flowing(self) -> Iterator[None]:
        """Everything at work; at the end all that was sent was delivered, or given up."""
        for worker in self._workers:
            worker.begin()
        try:
            yield
        finally:
            for worker in (*self._workers, *self._strangers):
                worker.end()
            for worker in (*self._workers, *self._strangers):
                worker.wait()


class Tuner(Routine):
    """Changes settings of a topic of the source now and then, and takes them back."""

    def __init__(self, topic: str, source: Side, history: History, chance: random.Random) -> None:
        super().__init__("tuner")
        self._topic, self._source, self._history, self._chance = topic, source, history, chance

    def _run(self) -> None:
        while not self._over.wait(self._chance.uniform(*_TUNED_EVERY_S)):
            name, values = self._chance.choice(sorted(_TUNED.items()))
            value = self._chance.choice(values)
            operation = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
            resource = ConfigResource(ResourceType.TOPIC, self._source.names.called(self._topic))
            resource.add_incremental_config(ConfigEntry(name, value or "", incremental_operation=operation))
            told = {"topic": self._topic, "name": name, "value": value}
            try:
                self._source.admin.incremental_alter_configs([resource])[resource].result(TERM_S)
            except (KafkaException, TimeoutError) as error:
                # Whether it was done the last look at both sides shows.
                told["problem"] = str(error)[:100]
            self._history.tell("tuned", **told)


class Newcomers:
    """Creates some topics, one now and then, and has another one grow; all are written to from then on."""

    def __init__(self, source: Side, history: History, acks: list[Acks]) -> None:
        self._source, self._history, self._acks = source, history, acks
        self._writers: list[PlainWriter] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="newcomers")

    def begin(self) -> None:
        """Begin with the first topic."""
        self._write("growing", 1)
        self._thread.start()

    def end(self) -> None:
        """Create no more, and write no more."""
        self._over.set()

    def wait(self) -> None:
        """Wait until everything was delivered."""
        self._thread.join()
        for writer in self._writers:
            writer.end()
        for writer in self._writers:
            writer.wait()

    def _run(self) -> None:
        number = 0
        while number < _NEW_MAX and not self._over.wait(_NEW_EVERY_S):
            number += 1
            try:
                create_topic(self._source, f"{PREFIX}late-{number}", partitions=2)
                self._write(f"late-{number}", 2)
                self._grow(number + 1)
            except (KafkaException, TimeoutError) as error:
                # The source is being broken: the next one comes later.
                self._history.tell("newcomer", problem=str(error)[:200])

    def _grow(self, partitions: int) -> None:
        name = f"{PREFIX}growing"
        self._source.admin.create_partitions([NewPartitions(name, partitions)])[name].result(TERM_S)
        self._writers[0].partitions = partitions

    def _write(self, name: str, partitions: int) -> None:
        pen = Pen(
            name=name,
            topic=f"{PREFIX}{name}",
            partitions=partitions,
            codec="none",
            linger_ms=10,
            records_per_s=_RECORDS_PER_S / 2,
        )
        writer = PlainWriter(pen, self._source, self._history)
        self._writers.append(writer)
        self._acks.append(writer.acks)
        writer.begin()


def _chosen(ends: dict[PartitionKey, int]) -> dict[PartitionKey, int]:
    """The partitions that groups read: those of two topics that nobody deletes."""
    return {key: end for key, end in ends.items() if key[0] in _READ}


def _stranger(topic: str) -> Pen:
    """Who writes to a topic of the target besides the mirror."""
    return Pen(
        name=f"stranger-{topic.removeprefix(PREFIX)}",
        topic=topic,
        partitions=_PARTITIONS,
        codec="none",
        linger_ms=20,
        records_per_s=_RECORDS_PER_S / 4,
        style=Style(value_bytes=100),
    )


def _pens(chance: random.Random) -> Iterator[Pen]:
    """Small and large batches of one codec in one topic, those of all others in another; a writer whose records are
    older than producers live; and one that gives new values to the same keys.
    """
    first, *others = chance.sample(CODECS, len(CODECS))
    plain = [(f"{PREFIX}plain", first, True), (f"{PREFIX}plain", first, False)]
    mixed = [(f"{PREFIX}mixed", codec, chance.random() < 0.5) for codec in others]
    for topic, codec, is_small in plain + mixed:
        pace = 2 * _RECORDS_PER_S if topic == f"{PREFIX}plain" else _RECORDS_PER_S / 2
        yield Pen(
            name=f"{codec}-{'small' if is_small else 'large'}",
            topic=topic,
            partitions=_PARTITIONS,
            codec=codec,
            linger_ms=_SMALL_MS if is_small else _LARGE_MS,
            records_per_s=pace if is_small else 2 * pace,
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
    yield Pen(
        name="keyed",
        topic=f"{PREFIX}compacted",
        partitions=_PARTITIONS,
        codec=chance.choice(CODECS),
        linger_ms=20,
        records_per_s=_RECORDS_PER_S,
        style=Style(keys=40, tombstones=0.1),
    )
