"""Keeps up to date what is known of selected logs, while brokers are slow or silent."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Iterator, Mapping
from functools import partial
from typing import Final, NamedTuple

from isthmus.deadline import Deadline
from isthmus.errors import AuthenticationFailed, ClusterError, NotAuthorized
from isthmus.kafka.client import Client
from isthmus.kafka.log.leaders import ask_nodes, leaders_of
from isthmus.kafka.log.listoffsets import EARLIEST, LATEST, READ_UNCOMMITTED, PartitionKey, list_offsets
from isthmus.kafka.metadata import Metadata
from isthmus.kafka.outcomes import Outcomes
from isthmus.spark.dataframes.selection import Subscription
from isthmus.spark.dataframes.survey import WHAT, ids_of, partitions_of, selected_in

_TOPICS_EVERY_S: Final = 2.0


class _Question(NamedTuple):
    """A question that is open, and the ids of topics when it was asked."""

    task: asyncio.Task[Outcomes[PartitionKey, int]]
    ids: Mapping[str, str]


class _Inquiry:
    """Questions for offsets, one at a time for each broker: one that does not answer delays only what it leads, as its
    question stays open while others are asked again.
    """

    def __init__(self, client: Client, timestamp: int, isolation: int = READ_UNCOMMITTED) -> None:
        self._client = client
        self._ask = partial(list_offsets, timestamp=timestamp, isolation=isolation)
        self._open: dict[int, _Question] = {}

    async def ask(
        self, leaders: Mapping[int, Mapping[PartitionKey, int]], ids: Mapping[str, str], wait_s: float
    ) -> list[tuple[Mapping[str, str], Outcomes[PartitionKey, int]]]:
        """Ask leaders that owe no answer, wait so long (s), and return the answers with the ids as they were asked."""
        for node, epochs in leaders.items():
            if node not in self._open:
                asking = ask_nodes(self._client, {node: epochs}, self._ask, WHAT)
                self._open[node] = _Question(asyncio.create_task(asking), ids)
        if self._open:
            await asyncio.wait([each.task for each in self._open.values()], timeout=wait_s)
        done = [self._open.pop(node) for node in [node for node, each in self._open.items() if each.task.done()]]
        return [(each.ids, each.task.result()) for each in done]

    async def aclose(self) -> None:
        """Give up questions that are open."""
        for each in self._open.values():
            each.task.cancel()
        await asyncio.gather(*(each.task for each in self._open.values()), return_exceptions=True)
        self._open.clear()


class LogWatch:
    """What is known of the selected logs, kept up to date by short questions. Use it in one event loop."""

    def __init__(self, client: Client, subscription: Subscription, isolation: int) -> None:
        self._client = client
        self._subscription = subscription
        self._metadata: Metadata | None = None
        self._fresh = Deadline(0.0)
        self._ends: dict[PartitionKey, int] = {}
        self._of_starts = _Inquiry(client, EARLIEST)
        self._of_ends = _Inquiry(client, LATEST, isolation)
        self._silent_since: float | None = None
        self.ids: Mapping[str, str] = {}
        """The ids of the selected topics."""
        self.partitions: frozenset[PartitionKey] = frozenset()
        """The selected partitions."""
        self.error: ClusterError | None = None
        """Why the last question had no answer."""

    @property
    def is_informed(self) -> bool:
        """Whether the cluster has shown its topics."""
        return self._metadata is not None

    @property
    def is_complete(self) -> bool:
        """Whether the cluster has shown its topics, and leaders the ends of all selected logs."""
        return self.is_informed and self.partitions <= self._ends.keys()

    @property
    def silent_s(self) -> float:
        """For how long (s) questions have been without any answer."""
        return 0.0 if self._silent_since is None else time.monotonic() - self._silent_since

    @property
    def ends(self) -> dict[PartitionKey, int]:
        """The ends of logs as they were shown last."""
        return dict(self._ends)

    async def look(self, wait_s: float) -> None:
        """Ask for the ends of all logs, and wait so long (s) for answers; they may come with a later look.

        :raises ClusterError: The cluster refuses to show them.
        """
        await self._find_topics()
        for (topic, partition), end in await self._answers(self._of_ends, self.partitions, wait_s):
            self._ends[topic, partition] = end

    async def starts(self, partitions: Collection[PartitionKey], wait_s: float) -> Mapping[PartitionKey, int]:
        """Ask where these logs begin, and wait so long (s); those without an answer until then are left out.

        :raises ClusterError: The cluster refuses to show them.
        """
        return dict(await self._answers(self._of_starts, partitions, wait_s))

    async def _answers(
        self, inquiry: _Inquiry, partitions: Collection[PartitionKey], wait_s: float
    ) -> list[tuple[PartitionKey, int]]:
        if self._metadata is None:
            return []
        leaders, _ = leaders_of(self._metadata, partitions)
        answers = await inquiry.ask(leaders, self.ids, wait_s)
        return [each for ids, found in answers for each in self._take(ids, found)]

    async def _find_topics(self) -> None:
        if not self._fresh.has_passed:
            return
        try:
            metadata = await self._client.metadata(self._subscription.asked)
            topics = {topic.name: topic for topic in selected_in(self._client, self._subscription, metadata)}
        except ClusterError as error:
            if not error.retryable:
                raise
            self._note_silence(error)
            return
        ids = ids_of(topics)
        # What was shown of a former topic is not true of the next one.
        self._ends = {key: end for key, end in self._ends.items() if ids.get(key[0]) == self.ids.get(key[0])}
        self._metadata, self.ids = metadata, ids
        self.partitions = partitions_of(self._subscription, topics)
        self._fresh = Deadline(_TOPICS_EVERY_S)
        self._silent_since = None

    def _take(self, ids: Mapping[str, str], found: Outcomes[PartitionKey, int]) -> Iterator[tuple[PartitionKey, int]]:
        if found.values:
            self._silent_since = None
        for error in found.errors.values():
            if isinstance(error, NotAuthorized | AuthenticationFailed):
                raise error
            # Leaders have moved, or are gone.
            self._fresh = Deadline(0.0)
            self._note_silence(error)
        for key, offset in found.values.items():
            if offset >= 0 and self.ids.get(key[0]) == ids.get(key[0]):
                yield key, offset

    def _note_silence(self, error: ClusterError) -> None:
        self.error = error
        if self._silent_since is None:
            self._silent_since = time.monotonic()

    async def aclose(self) -> None:
        """Give up questions that are open."""
        await self._of_starts.aclose()
        await self._of_ends.aclose()
