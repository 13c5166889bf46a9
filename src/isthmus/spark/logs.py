"""Logs of several clusters, read in a Spark task without asyncio showing."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Collection, Iterator, Mapping
from itertools import groupby
from types import MappingProxyType
from typing import Final, NamedTuple, Self

from isthmus.deadline import Deadline
from isthmus.engine.batches.rebatch import Record, encode, records_of
from isthmus.engine.mapped.flagging import flagged
from isthmus.errors import ClusterError, ConfigError
from isthmus.kafka.client import Client
from isthmus.kafka.log.listoffsets import READ_COMMITTED, PartitionKey
from isthmus.kafka.log.offsets import log_ranges, may_pass
from isthmus.kafka.log.reading import STALL_S, LogReader, OffsetRange, StoredBatch
from isthmus.kafka.metadata import NO_TOPIC_ID
from isthmus.kafka.session import ClientSession
from isthmus.model.cluster import Cluster
from isthmus.model.copyflags import FlagsHeader, is_done_with

_RETRY_S: Final = 0.2


class Copying(NamedTuple):
    """How a distributor copies: its level, and the header in which it keeps copy flags, if it keeps them in one."""

    level: int
    flags: FlagsHeader | None = None


def require_cluster(clusters: Mapping[str, Cluster], alias: str) -> Cluster:
    """Return the cluster with this alias.

    :raises ConfigError: There is none.
    """
    if alias not in clusters:
        raise ConfigError(
            f"no cluster {alias!r} is registered with this data source",
            hint=f"Set the option cluster to one of {', '.join(clusters) or 'those registered'}.",
        )
    return clusters[alias]


class Logs:
    """The logs of several clusters, read one range after the other, with a synchronous interface.

    `copying` is how distributors copy from a cluster, by its alias: records that they do not copy, because these were
    distributed at their level or below, are returned as aborted, and all others with the headers of their copies.
    `topic_ids` are the ids that topics have to have, where that is known. Without an answer of a leader for `stall_s`
    it fails.
    """

    def __init__(
        self,
        clusters: Mapping[str, Cluster],
        copying: Mapping[str, Copying] = MappingProxyType({}),
        *,
        isolation: int = READ_COMMITTED,
        topic_ids: Mapping[str, uuid.UUID] = MappingProxyType({}),
        stall_s: float = STALL_S,
    ) -> None:
        self._stall_s = stall_s
        self._clusters = clusters
        self._copying = copying
        self._isolation = isolation
        self._topic_ids = topic_ids
        self._loop = asyncio.new_event_loop()
        self._session = ClientSession()
        self._readers: dict[str, LogReader] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.run_until_complete(self._session.aclose())
        self._loop.close()

    def read(self, alias: str, span: OffsetRange) -> Iterator[list[StoredBatch]]:
        """As `LogReader.read`."""
        if alias not in self._readers:
            self._readers[alias] = LogReader(
                self._client(alias), isolation=self._isolation, topic_ids=self._topic_ids, stall_s=self._stall_s
            )
        copying = self._copying.get(alias)
        stream = self._readers[alias].read(span)
        try:
            while True:
                try:
                    found = self._loop.run_until_complete(anext(stream))
                except StopAsyncIteration:
                    return
                yield (
                    found if copying is None else [each for item in found for each in _split_by_copying(item, copying)]
                )
        finally:
            self._loop.run_until_complete(stream.aclose())

    def starts(self, alias: str, partitions: Collection[PartitionKey]) -> Mapping[PartitionKey, int]:
        """Where the logs of partitions begin now.

        :raises ClusterError: One of them cannot be asked.
        """
        return self._loop.run_until_complete(self._starts(self._client(alias), partitions))

    async def _starts(self, client: Client, partitions: Collection[PartitionKey]) -> Mapping[PartitionKey, int]:
        deadline = Deadline(self._stall_s)
        while True:
            try:
                found = (await log_ranges(client, partitions)).all()
            except ClusterError as error:
                if not may_pass(error) or deadline.has_passed:
                    raise
                await asyncio.sleep(_RETRY_S)
            else:
                return {key: log.start for key, log in found.items()}

    def is_recreated(self, alias: str, topic: str) -> bool:
        """Whether the cluster names another topic id for a topic than it has to have.

        :raises ClusterError: The cluster does not answer.
        """
        metadata = self._loop.run_until_complete(self._client(alias).metadata([topic]))
        shown = metadata.topics[topic].topic_id if topic in metadata.topics else NO_TOPIC_ID
        return NO_TOPIC_ID not in (shown, self._topic_ids.get(topic, NO_TOPIC_ID)) and shown != self._topic_ids[topic]

    def _client(self, alias: str) -> Client:
        return self._session.client(require_cluster(self._clusters, alias))


def _split_by_copying(item: StoredBatch, copying: Copying) -> Iterator[StoredBatch]:
    """Yield a batch as a distributor copies it, in pieces where it does not copy all records."""
    batch, is_aborted = item
    if copying.flags is None:
        yield item._replace(is_aborted=is_aborted or is_done_with(batch.producer_id, copying.level))
    elif batch.is_control or is_aborted:
        yield item
    else:
        records = records_of(batch)
        copies = {record.offset: record for record in flagged(records, copying.level, copying.flags).records}

        def run(place: tuple[int, Record]) -> tuple[bool, int]:
            # Batches that are encoded have no holes.
            return place[1].offset in copies, place[1].offset - place[0]

        for (is_copied, _), found in groupby(enumerate(records), run):
            piece = [copies.get(record.offset, record) for _, record in found]
            yield StoredBatch(encode(piece, 0), is_aborted=not is_copied)
