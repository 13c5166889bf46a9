"""How the links stand: ends and lags as the logs tell them, states as the ledger tells them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Final, Self

from isthmus.cluster.ages import record_times
from isthmus.cluster.offsets import LogRange, log_ranges
from isthmus.cluster.topics import selected_topics
from isthmus.control.observation import problem_of
from isthmus.control.progress import (
    LinkProgress,
    LinkState,
    PartitionProgress,
    TopicProgress,
    topic_of,
)
from isthmus.control.recollection import Recollection, now_ms, recollect
from isthmus.errors import ClusterError
from isthmus.model.lane import LaneKey, LaneReport, LaneState, Problem
from isthmus.model.link import Link
from isthmus.wire import codes
from isthmus.wire.client import Client
from isthmus.wire.metadata import TopicMetadata
from isthmus.wire.offsets import PartitionKey

_RANGES_S: Final = 3.0
_AGED_MAX: Final = 200
"""Of so many lagging partitions the age of the oldest record to copy is looked up."""
_MS_PER_S: Final = 1000

Ranges = Mapping[PartitionKey, LogRange]


@dataclass(slots=True)
class _Reading:
    """One look at a link: what both clusters and the ledger say."""

    known: Recollection
    topics: Mapping[str, TopicMetadata] = field(default_factory=dict)
    source: Ranges = field(default_factory=dict)
    target: Ranges = field(default_factory=dict)
    times: Mapping[PartitionKey, int] = field(default_factory=dict)
    at: float = 0.0

    async def take(self, link: Link, source: Client, target: Client) -> None:
        """Look; what was seen before an error stays."""
        self.known = await recollect(link.name, target)
        self.topics = (await selected_topics(source, link.topics)).topics
        partitions = [(t.name, p.partition) for t in self.topics.values() for p in t.partitions]
        there = (await target.metadata(sorted(self.topics))).topics if partitions else {}
        mirrored = [key for key in partitions if key[0] in there and not there[key[0]].error_code]
        # The target first, so that it is never ahead of the source.
        self.target = (await log_ranges(target, mirrored, timeout_s=_RANGES_S)).values
        self.at = time.monotonic()
        self.source = (await log_ranges(source, partitions, timeout_s=_RANGES_S)).values
        self.times = await record_times(source, dict(list(self._oldest().items())[:_AGED_MAX]))

    def _oldest(self) -> dict[PartitionKey, int]:
        """The first offsets still to copy, where there are any."""
        begins = {
            key: max(self.target[key].end if key in self.target else 0, log.start) for key, log in self.source.items()
        }
        return {key: at for key, at in begins.items() if at < self.source[key].stable_end}


class StatusReader:
    """Reads how links stand, again and again; from the second time on with rates."""

    def __init__(self, links: tuple[Link, ...]) -> None:
        self._links = links
        self._stack = AsyncExitStack()
        self._clients: dict[str, Client] = {}
        self._before: dict[str, _Reading] = {}

    async def __aenter__(self) -> Self:
        clusters = {c.alias: c for link in self._links for c in (link.source, link.target)}
        for cluster in clusters.values():
            client = await self._stack.enter_async_context(Client(cluster))
            self._clients[cluster.alias] = client
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._stack.aclose()

    async def read(self) -> tuple[LinkProgress, ...]:
        """All links as they stand; a cluster that does not answer makes its links UNAVAILABLE."""
        return tuple(await asyncio.gather(*(self._read(link) for link in self._links)))

    async def _read(self, link: Link) -> LinkProgress:
        reading, problem = _Reading(Recollection(link.name)), None
        try:
            source, target = self._clients[link.source.alias], self._clients[link.target.alias]
            await reading.take(link, source, target)
        except ClusterError as error:
            problem = problem_of(error)
        progress = LinkProgress(
            link=link.name,
            source=link.source.alias,
            target=link.target.alias,
            state=LinkState.UNAVAILABLE if problem else reading.known.state(now_ms()),
            topics=tuple(_topics(reading, self._before.get(link.name))),
            groups=reading.known.groups,
            problem=problem,
        )
        if problem is None:
            self._before[link.name] = reading
        return progress


def _topics(reading: _Reading, before: _Reading | None) -> list[TopicProgress]:
    """The topics the link selects now, and those it was mirroring."""
    known = reading.known.topics
    found = []
    for name in sorted({*reading.topics, *known}):
        metadata, document = reading.topics.get(name), known.get(name)
        if metadata is None or metadata.error_code == codes.UNKNOWN_TOPIC_OR_PARTITION:
            problem = Problem("the source has no such topic", "Nothing more is copied of it.")
            found.append(TopicProgress(topic=name, state=LaneState.SOURCE_UNAVAILABLE, problem=problem))
            continue
        topic = topic_of(name, [_partition(reading, before, (name, p.partition)) for p in metadata.partitions])
        if document is not None and LaneState(document.state).is_terminal:
            topic = replace(topic, state=LaneState(document.state), problem=document.problem)
        found.append(topic)
    return found


def _partition(reading: _Reading, before: _Reading | None, key: PartitionKey) -> PartitionProgress:
    report = reading.known.reports.get(LaneKey(*key))
    source, target = reading.source.get(key), reading.target.get(key)
    oldest = reading.times.get(key)
    return PartitionProgress(
        topic=key[0],
        partition=key[1],
        state=_state(reading.known, key[0], report),
        source_end=-1 if source is None else source.stable_end,
        target_end=-1 if target is None else target.end,
        lag_s=_lag_s(source, target, oldest),
        records_per_s=_rate(reading, before, key),
        problem=None if report is None else report.problem,
        gaps=reading.known.gaps(LaneKey(*key)),
    )


def _state(known: Recollection, topic: str, report: LaneReport | None) -> LaneState:
    if report is not None and report.state.is_terminal:
        return report.state
    if known.state(now_ms()) is LinkState.STOPPED:
        return LaneState.STOPPED
    if known.paused & {None, topic}:
        return LaneState.PAUSED
    return LaneState.STARTING if report is None else report.state


def _lag_s(source: LogRange | None, target: LogRange | None, oldest: int | None) -> float | None:
    if source is not None and target is not None and target.end >= source.stable_end:
        return 0.0
    return None if oldest is None else max((now_ms() - oldest) / _MS_PER_S, 0.0)


def _rate(reading: _Reading, before: _Reading | None, key: PartitionKey) -> float | None:
    if before is None or key not in before.target or key not in reading.target:
        return None
    advanced = reading.target[key].end - before.target[key].end
    return max(advanced, 0) / max(reading.at - before.at, 0.001)
