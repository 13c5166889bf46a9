"""What the ledger remembers of a link, as the values control works with."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Self

from isthmus.control.planning import TopicIds
from isthmus.control.progress import GroupProgress, LinkState
from isthmus.errors import ClusterError
from isthmus.ledger.documents import (
    ControllerDocument,
    Document,
    GapDocument,
    GroupDocument,
    PauseDocument,
    ProgressDocument,
    TopicDocument,
    decoded,
    link_of,
)
from isthmus.ledger.link import BEAT_S
from isthmus.ledger.log import LedgerTail
from isthmus.ledger.records import Entry
from isthmus.ledger.topic import is_missing
from isthmus.model.lane import Gap, LaneKey, LaneReport
from isthmus.wire.client import Client
from isthmus.wire.metadata import NO_TOPIC_ID

_SILENT_MS: Final = int(5 * BEAT_S * 1000)
"""A controller that said nothing for so long runs no more."""


def recorded_topics(link: str, documents: Mapping[str, Document]) -> dict[str, TopicIds]:
    """Which topics of the link were brought together, by target topic."""
    return {
        document.target_topic: TopicIds(source=document.source_topic_id, target=document.target_topic_id)
        for document in documents.values()
        if isinstance(document, TopicDocument) and document.link == link and document.target_topic_id != NO_TOPIC_ID
    }


def paused_topics(link: str, documents: Mapping[str, Document]) -> frozenset[str | None]:
    """The topics an operator has paused; `None` among them stands for the whole link."""
    return frozenset(
        document.topic
        for document in documents.values()
        if isinstance(document, PauseDocument) and document.link == link
    )


@dataclass(slots=True)
class Recollection:
    """What the ledger says of a link. `reports` are the newest of each lane by the newest controller.

    `beaten_ms` is when the controller last said that it is alive, by its own clock, -1 for never.
    """

    link: str
    documents: dict[str, Document] = field(default_factory=dict)
    reports: dict[LaneKey, LaneReport] = field(default_factory=dict)
    beaten_ms: int = -1
    _generation: int = -1

    @classmethod
    def of(cls, link: str, entries: Iterable[Entry]) -> Self:
        """What a ledger amounts to that is read from its beginning."""
        recollection = cls(link)
        for entry in entries:
            if link_of(entry.key) == link:
                recollection._take(entry)
        return recollection

    @property
    def topics(self) -> dict[str, TopicDocument]:
        """The topics of the link, by target topic."""
        return {d.target_topic: d for d in self.documents.values() if isinstance(d, TopicDocument)}

    def gaps(self, key: LaneKey) -> tuple[Gap, ...]:
        """What the source had deleted of a partition before it was copied, in offset order."""
        found = [d for d in self.documents.values() if isinstance(d, GapDocument)]
        return tuple(
            sorted(
                (
                    Gap(d.offset_begin, d.offset_end)
                    for d in found
                    if (d.topic, d.partition) == (key.topic, key.partition)
                ),
                key=lambda gap: gap.offset_begin,
            )
        )

    @property
    def groups(self) -> tuple[GroupProgress, ...]:
        """The consumer groups of the link."""
        found = [d for d in self.documents.values() if isinstance(d, GroupDocument)]
        return tuple(
            GroupProgress(group=d.group, standing=d.standing, problem=d.problem)
            for d in sorted(found, key=lambda document: document.group)
        )

    @property
    def paused(self) -> frozenset[str | None]:
        return paused_topics(self.link, self.documents)

    def state(self, now_ms: int) -> LinkState:
        """Where the link stands, as far as the ledger knows."""
        if self.beaten_ms < 0 or now_ms - self.beaten_ms > _SILENT_MS:
            return LinkState.STOPPED
        return LinkState.PAUSED if None in self.paused else LinkState.ACTIVE

    def _take(self, entry: Entry) -> None:
        if entry.value is None:
            if isinstance(self.documents.pop(entry.key, None), ControllerDocument):
                self.beaten_ms = -1
            return
        document = decoded(entry.key, entry.value)
        if document is None:
            return
        if isinstance(document, ControllerDocument) and document.generation >= self._generation:
            self.beaten_ms = entry.timestamp
            self._begin(document.generation)
        elif isinstance(document, ProgressDocument) and document.controller >= self._generation:
            self._begin(document.controller)
            self.reports.update((report.key, report) for report in document.reports)
        self.documents[entry.key] = document

    def _begin(self, generation: int) -> None:
        """What an earlier controller's lanes said no longer counts."""
        if generation > self._generation:
            self._generation = generation
            self.reports.clear()


async def recollect(link: str, client: Client) -> Recollection:
    """What the ledger at a target cluster says of a link; nothing where there is no ledger.

    :raises PlanRefused: A newer Isthmus wrote it.
    :raises ClusterError: It cannot be read.
    """
    return Recollection.of(link, await read_ledger(client))


async def read_ledger(client: Client) -> list[Entry]:
    """Everything the ledger of a cluster holds, of all links; nothing where there is no ledger.

    :raises ClusterError: It cannot be read.
    """
    tail = LedgerTail(client)
    try:
        return await tail.read_to_end()
    except ClusterError as error:
        if is_missing(error):
            return []
        raise
    finally:
        tail.close()


def now_ms() -> int:
    """The wall clock, for people and for nothing else."""
    return int(time.time() * 1000)
