"""The state that follows from the log of commits, built like a group coordinator builds it.

A commit in a transaction counts once its marker is in the log, unless a newer commit was made meanwhile: one later in
the log. A tombstone removes commits in open transactions too (Kafka's OffsetMetadataManager.replay does the same). So
the table always equals the answer of OffsetFetch.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from isthmus.kafka.batches.aborted import ABORT, control_type
from isthmus.kafka.batches.batch import Batch
from isthmus.kafka.batches.records import records_in
from isthmus.kafka.commits.records import CommitKey, commit_key, commit_value
from isthmus.model.kafka.group import NO_OFFSET, Committed
from isthmus.model.naming import SourceTopicPartition

_UNKNOWN_PLACE: Final = -1
NO_PRODUCER: Final = -1
_PRODUCERS_MAX: Final = 8
"""For each position, the transactional commits of at most so many producers are kept."""


class Transacted(NamedTuple):
    """A position that was committed in a transaction of `producer_id`, at the offset `place` of the log of commits."""

    place: int
    producer_id: int
    committed: Committed


class _Entry(NamedTuple):
    """A position and its offset in the log of commits."""

    place: int
    committed: Committed


class CommitTable(Mapping[str, dict[SourceTopicPartition, Committed]]):
    """The positions of all `wanted` groups that have some. Feed it every batch of every partition, in order."""

    def __init__(self, wanted: Callable[[str], bool]) -> None:
        self._wanted = wanted
        self._groups: dict[str, dict[SourceTopicPartition, _Entry]] = {}
        self._pending: dict[tuple[int, int], dict[CommitKey, _Entry]] = defaultdict(dict)
        self._transacted: dict[str, dict[SourceTopicPartition, dict[int, Transacted]]] = {}

    def __getitem__(self, group: str) -> dict[SourceTopicPartition, Committed]:
        entries = self._groups[group]
        return {key: entry.committed for key, entry in entries.items() if entry.committed.offset != NO_OFFSET}

    def __iter__(self) -> Iterator[str]:
        return iter(self._groups)

    def __len__(self) -> int:
        return len(self._groups)

    def seed(self, group: str, positions: Mapping[SourceTopicPartition, Committed]) -> None:
        """Set the positions that the coordinator returned for a group. Later entries of the log replace them, even
        older ones: the caller reads on until the log has caught up with the moment of the seed.
        """
        self._groups[group] = {key: _Entry(_UNKNOWN_PLACE, committed) for key, committed in positions.items()}

    def find_transacted(self, group: str) -> dict[SourceTopicPartition, tuple[Transacted, ...]]:
        """The newest transactional commit of each of the last producers, whether it still counts or not.

        Commits that were replaced before `begin` are left out.
        """
        return {key: tuple(found.values()) for key, found in self._transacted.get(group, {}).items()}

    def writers(self, group: str) -> dict[SourceTopicPartition, int]:
        """The producers whose transactions committed the present positions, -1 for a commit outside a transaction.

        Positions that are known only from the coordinator are left out.
        """
        transacted = self._transacted.get(group, {})
        return {
            key: next((p for p, one in transacted.get(key, {}).items() if one.place == entry.place), NO_PRODUCER)
            for key, entry in self._groups.get(group, {}).items()
            if entry.place != _UNKNOWN_PLACE
        }

    def begin(self) -> None:
        """Drop transactional commits that were replaced up to now."""
        for group, found in self._transacted.items():
            for key, by_producer in found.items():
                place = self._groups[group][key].place
                found[key] = {producer: one for producer, one in by_producer.items() if one.place == place}

    def take(self, partition: int, batch: Batch) -> set[str]:
        """Take the next batch of a partition of the log. Return the groups whose positions may have changed.

        :raises ValueError: The batch holds records that cannot be decoded.
        """
        if batch.is_control:
            return self._end(partition, batch)
        changed: set[str] = set()
        for place, key, value in _records(batch):
            if key is None:
                continue
            found = commit_key(key)
            if found is None or not self._wanted(found.group):
                continue
            if value is None:
                self._forget(partition, found)
            elif batch.is_transactional:
                self._pending[partition, batch.producer_id][found] = _Entry(place, commit_value(value))
                continue
            else:
                self._put(found, _Entry(place, commit_value(value)))
            changed.add(found.group)
        return changed

    def _end(self, partition: int, batch: Batch) -> set[str]:
        pending = self._pending.pop((partition, batch.producer_id), {})
        if control_type(batch) == ABORT:
            return set()
        for key, entry in pending.items():
            self._put(key, entry)
            found = self._transacted.setdefault(key.group, {}).setdefault((key.topic, key.partition), {})
            found.pop(batch.producer_id, None)
            found[batch.producer_id] = Transacted(entry.place, batch.producer_id, entry.committed)
            if len(found) > _PRODUCERS_MAX:
                del found[next(iter(found))]
        return {key.group for key in pending}

    def _put(self, key: CommitKey, entry: _Entry) -> None:
        entries = self._groups.setdefault(key.group, {})
        before = entries.get((key.topic, key.partition))
        if before is None or before.place < entry.place:
            entries[key.topic, key.partition] = entry

    def _forget(self, partition: int, key: CommitKey) -> None:
        entries = self._groups.get(key.group, {})
        entries.pop((key.topic, key.partition), None)
        self._transacted.get(key.group, {}).pop((key.topic, key.partition), None)
        if not entries:
            self._groups.pop(key.group, None)
            self._transacted.pop(key.group, None)
        for (of_partition, _), pending in self._pending.items():
            if of_partition == partition:
                pending.pop(key, None)


def _records(batch: Batch) -> list[tuple[int, bytes | None, bytes | None]]:
    try:
        return [(record.offset, record.key, record.value) for record in records_in(batch)]
    except Exception as error:
        raise ValueError(f"the batch at offset {batch.base_offset} cannot be decoded: {error}") from error
