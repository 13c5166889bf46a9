"""The target cluster of synchronous links of a gateway, by its ledger."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from isthmus.errors import ClusterError, PlanRefused
from isthmus.gateway.synchronous.follower import FollowerWatch
from isthmus.gateway.synchronous.noting import Notes
from isthmus.kafka.clock import lasting_s
from isthmus.kafka.session import ClientSession
from isthmus.ledger.documents.kinds import Document
from isthmus.ledger.log import LedgerWriter
from isthmus.ledger.records import LedgerChange
from isthmus.memory.links import LedgerMemory, read_ledger
from isthmus.model.configuration import Configuration
from isthmus.model.gateways.synchrony import LOOK_S

_log = logging.getLogger(__name__)
WRITE_S: Final = 3.0
"""How long (s) a write to a ledger may take."""
_AWAY_S: Final = 10.0
"""A target whose ledger cannot be read for so long (s) counts as not following."""


class Target:
    """The target cluster of synchronous links, by its id: its ledger as it was last read, and its followers."""

    def __init__(self, configuration: Configuration, alias: str, cluster_id: str) -> None:
        self._cluster = replace(configuration.cluster(alias), cluster_id=cluster_id)
        self._session = ClientSession()
        self.client = self._session.client(self._cluster)
        self.follower = FollowerWatch(self.client)
        self.cluster_id = cluster_id
        self.memory: LedgerMemory | None = None
        self.heard_at = time.monotonic()
        self.begun_at = float("-inf")
        self._writer = LedgerWriter(self.client, in_order=True)
        self._notes: dict[str, Notes] = {}

    def notes(self, link: str, gateway: str) -> Notes:
        """Return the notes of commits that a gateway forwards for a link. A link that becomes synchronous again keeps
        its notes: they are one document of the ledger.
        """
        if link not in self._notes:
            self._notes[link] = Notes(link, gateway, self.client, self.write)
        return self._notes[link]

    @property
    def has_notes(self) -> bool:
        """Whether its ledger may have notes of commits."""
        return any(each.are_there for each in self._notes.values())

    @property
    def is_away(self) -> bool:
        """Whether its ledger has been unreadable for too long."""
        return time.monotonic() - self.heard_at > _AWAY_S

    def documents(self, link: str) -> Mapping[str, Document]:
        """Return the documents of a link in its ledger, as far as it was read."""
        return {} if self.memory is None else self.memory.of(link).documents

    async def follow(self) -> None:
        """Read its ledger again and again, until cancelled."""
        while True:
            begun = lasting_s()
            try:
                async with asyncio.timeout(_AWAY_S):
                    self.memory = await read_ledger(self.client)
                self.heard_at, self.begun_at = time.monotonic(), begun
            except (ClusterError, TimeoutError, PlanRefused) as error:
                why = str(error) or "it does not answer in time"
                _log.warning("the ledger of %s is not heard: %s", self._cluster.alias, why)
            await asyncio.sleep(LOOK_S)

    async def write(self, changes: Iterable[LedgerChange]) -> None:
        """Append changes to its ledger.

        :raises ClusterError: They were rejected, or not written within `WRITE_S`.
        """
        await self._writer.append(changes, term_s=WRITE_S)

    async def aclose(self) -> None:
        """Close the target."""
        await self.follower.aclose()
        self._writer.close()
        await self._session.aclose()
