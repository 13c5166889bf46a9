"""What the log of commits amounts to, kept the way a group coordinator keeps it.

A commit in a transaction counts once its marker is there, and then only where nothing newer was committed meanwhile:
newer is what stands later in the log. A tombstone ends commits in open transactions too (Kafka's
OffsetMetadataManager.replay does the same). So the table always says what OffsetFetch says.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from aiokafka.record.default_records import DefaultRecordBatch

from isthmus.cluster.commits.records import CommitKey, commit_key, commit_value
from isthmus.cluster.reading import is_abort_marker
from isthmus.model.group import NO_OFFSET, Committed
from isthmus.wire.batch import Batch
from isthmus.wire.offsets import PartitionKey

_UNKNOWN_PLACE: Final = -1


class _Entry(NamedTuple):
    """A position and the offset in the log of commits at which it stands."""

    place: int
    committed: Committed


class CommitTable(Mapping[str, dict[PartitionKey, Committed]]):
    """The positions of all groups that are `wanted` and have some. Feed it every batch of every partition, in order."""

    def __init__(self, wanted: Callable[[str], bool]) -> None:
        self._wanted = wanted
        self._groups: dict[str, dict[PartitionKey, _Entry]] = {}
        self._pending: dict[tuple[int, int], dict[CommitKey, _Entry]] = defaultdict(dict)

    def __getitem__(self, group: str) -> dict[PartitionKey, Committed]:
        entries = self._groups[group]
        return {key: entry.committed for key, entry in entries.items() if entry.committed.offset != NO_OFFSET}

    def __iter__(self) -> Iterator[str]:
        return iter(self._groups)

    def __len__(self) -> int:
        return len(self._groups)

    def seed(self, group: str, positions: Mapping[PartitionKey, Committed]) -> None:
        """What the coordinator says of a group. What the log says from now on counts more, also where it is older:
        whoever seeds reads on until it has caught up with the moment of the seed.
        """
        self._groups[group] = {key: _Entry(_UNKNOWN_PLACE, committed) for key, committed in positions.items()}

    def take(self, partition: int, batch: Batch) -> set[str]:
        """Take the next batch of a partition of the log; the groups whose positions may have changed.

        :raises ValueError: It holds what cannot be understood.
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
        if is_abort_marker(batch):
            return set()
        for key, entry in pending.items():
            self._put(key, entry)
        return {key.group for key in pending}

    def _put(self, key: CommitKey, entry: _Entry) -> None:
        entries = self._groups.setdefault(key.group, {})
        before = entries.get((key.topic, key.partition))
        if before is None or before.place < entry.place:
            entries[key.topic, key.partition] = entry

    def _forget(self, partition: int, key: CommitKey) -> None:
        entries = self._groups.get(key.group, {})
        entries.pop((key.topic, key.partition), None)
        if not entries:
            self._groups.pop(key.group, None)
        for (of_partition, _), pending in self._pending.items():
            if of_partition == partition:
                pending.pop(key, None)


def _records(batch: Batch) -> list[tuple[int, bytes | None, bytes | None]]:
    try:
        return [(record.offset, record.key, record.value) for record in DefaultRecordBatch(bytes(batch.view))]
    except Exception as error:
        raise ValueError(f"the batch at offset {batch.base_offset} cannot be decoded: {error}") from error
