"""The map of positions that a cluster of a tree holds: followed, and written (docs/trees.md)."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Mapping
from typing import Final

from isthmus.deadline import Deadline
from isthmus.errors import BrokerRefused, ClusterError, NotAuthorized
from isthmus.kafka import codes
from isthmus.kafka.admin.internal_topics import InternalTopics, is_missing
from isthmus.kafka.batches.records import records_in
from isthmus.kafka.client import Client
from isthmus.kafka.log.listoffsets import READ_UNCOMMITTED
from isthmus.kafka.log.offsets import log_ranges
from isthmus.kafka.log.reading import LogReader, OffsetRange
from isthmus.kafka.transactions.appending import PARTITION, CurrentAppender
from isthmus.memory.links import now_ms
from isthmus.model.trees.positions import POSITIONS_TOPIC, PositionEntry, PositionKey, entry_in, record_of

_log = logging.getLogger(__name__)
_LOOK_S: Final = 1.0
_RANGES_S: Final = 0.5
_CREATION_S: Final = 20.0
_RETRY_S: Final = 0.1
_KEY: Final = (POSITIONS_TOPIC, PARTITION)


class PositionMap:
    """The map at one cluster, as it was at the last look. Invalid entries are passed over, with one warning."""

    def __init__(self, client: Client) -> None:
        self.entries: dict[PositionKey, PositionEntry] = {}
        self._client = client
        self._topics = InternalTopics("groups")
        self._appender = CurrentAppender()
        self._topic_id: uuid.UUID | None = None
        self._next = 0
        self._looked_at = 0.0
        self._has_told = False

    async def look(self, *, is_due: bool = False) -> frozenset[str]:
        """Read the map; return the groups with news; once a second, unless it `is_due`. A missing map is an empty one.

        :raises ClusterError: The map cannot be read.
        """
        if not is_due and time.monotonic() < self._looked_at + _LOOK_S:
            return frozenset()
        try:
            begin, end = await self._range()
            changed = await self._read(begin, end) if begin < end else frozenset()
        except NotAuthorized:
            # Where it may not be read, nothing that came from above is passed on.
            changed = frozenset()
        self._looked_at = time.monotonic()
        return changed

    async def send(self, entries: Mapping[PositionKey, PositionEntry]) -> None:
        """Write entries; they are durable when this returns. A missing topic is created.

        :raises ClusterError: They were not accepted; some may be there all the same.
        """
        deadline = Deadline(_CREATION_S)
        records = [record_of(key, entry) for key, entry in entries.items()]
        while True:
            left = await self._topics.create(self._client, await self._topics.look(self._client, POSITIONS_TOPIC))
            try:
                await self._appender.to(self._client, POSITIONS_TOPIC).append(records, now_ms=now_ms())
                break
            except ClusterError as error:
                self._topics.doubt()
                # A topic that was just created is not known to every broker at once.
                is_young = isinstance(error, BrokerRefused) and error.code == codes.UNKNOWN_TOPIC_OR_PARTITION
                if not is_young or is_missing(POSITIONS_TOPIC, left) or deadline.has_passed:
                    raise
            await asyncio.sleep(_RETRY_S)
        self.entries.update(entries)

    def close(self) -> None:
        """Close the connection that writes."""
        self._appender.close()

    async def _range(self) -> tuple[int, int]:
        """Return the offsets still to be read."""
        topic = (await self._client.metadata([POSITIONS_TOPIC])).topics[POSITIONS_TOPIC]
        if topic.error_code == codes.UNKNOWN_TOPIC_OR_PARTITION:
            self._forget(None)
            return 0, 0
        found = await log_ranges(self._client, [_KEY], timeout_s=_RANGES_S)
        for error in found.errors.values():
            raise error
        log = found.values[_KEY]
        if topic.topic_id != self._topic_id or log.end < self._next:
            self._forget(topic.topic_id)
        return max(self._next, log.start), log.end

    def _forget(self, topic_id: uuid.UUID | None) -> None:
        """Forget the entries of another topic than the one that exists now."""
        self._topic_id, self._next = topic_id, 0
        self.entries.clear()

    async def _read(self, begin: int, end: int) -> frozenset[str]:
        changed: set[str] = set()
        reader = LogReader(self._client, isolation=READ_UNCOMMITTED)
        async for batches in reader.read(OffsetRange(*_KEY, begin, end)):
            for stored in batches:
                for record in () if stored.batch.is_control else records_in(stored.batch):
                    if begin <= record.offset < end:
                        changed |= self._take(record.key, record.value)
                self._next = stored.batch.offset_end
        self._next = max(self._next, end)
        return frozenset(changed)

    def _take(self, key: bytes | None, value: bytes | None) -> set[str]:
        try:
            # A deleted entry has no value; its key still names the group.
            at, entry = entry_in(bytes(key or b""), b'{"timestamp_ms":0}' if value is None else bytes(value))
        except (ValueError, RecursionError) as error:
            if not self._has_told:
                self._has_told = True
                alias = self._client.cluster.alias
                _log.warning("%s: a record of %s is passed over: %s", alias, POSITIONS_TOPIC, error)
            return set()
        before = self.entries.get(at)
        if value is None:
            self.entries.pop(at, None)
        else:
            self.entries[at] = entry
        return {at.group} if before != self.entries.get(at) else set()
