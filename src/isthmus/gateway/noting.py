"""Which partitions transactions have whose commits a gateway lets through, as the ledger of their target knows it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final

from isthmus.cluster.offsets import log_ranges
from isthmus.errors import ClusterError
from isthmus.ledger.documents import PreparedDocument
from isthmus.ledger.records import Deletion, LedgerChange
from isthmus.model.prepared import PreparedCommit
from isthmus.wire.client import Client
from isthmus.wire.offsets import PartitionKey

_log = logging.getLogger(__name__)
_ANSWER_S: Final = 3.0

Write = Callable[[Iterable[LedgerChange]], Awaitable[None]]


class Notes:
    """Those of one gateway and one link, in one document: whatever comes while it is written goes with the next one.

    `target` is the client of the link's target, and `write` writes into its ledger.
    """

    def __init__(self, link: str, gateway: str, target: Client, write: Write) -> None:
        self._link = link
        self._gateway = gateway
        self._target = target
        self._write = write
        # A producer may have several: one that began anew wrote elsewhere while its last commit had no end there yet.
        self._commits: dict[PreparedCommit, None] = {}
        self._written: dict[PreparedCommit, None] = {}
        self._late_since: float | None = None
        self._writing = asyncio.Lock()

    @property
    def late_s(self) -> float:
        """For how long (s) the ledger has not taken what it is to hold; it is tried again with each `clean`."""
        return 0.0 if self._late_since is None else time.monotonic() - self._late_since

    @property
    def are_there(self) -> bool:
        """Whether the ledger may have some, or is to."""
        return bool(self._commits or self._written or self._late_since is not None)

    @property
    def _document(self) -> PreparedDocument:
        return PreparedDocument(link=self._link, gateway=self._gateway, commits=tuple(self._commits))

    async def add(self, commit: PreparedCommit) -> None:
        """Have the ledger hold it when this returns.

        :raises ClusterError: It was refused, or did not succeed.
        """
        self._commits[commit] = None
        async with self._writing:
            if commit not in self._written:
                await self._bring()

    def forget(self, producer_id: int, ends: Mapping[PartitionKey, int]) -> None:
        """The transaction of this producer that has its records before these offsets of the target's partitions, up to
        there, has ended everywhere. The ledger hears of it with what is written next: it does no harm there.
        """
        for commit in list(self._commits):
            parts = {(part.topic, part.partition): part.end for part in commit.parts}
            if commit.producer_id == producer_id and parts.items() <= ends.items():
                del self._commits[commit]

    async def clean(self) -> None:
        """Take out of the ledger what has ended everywhere, and bring there what it has not taken before.

        :raises ClusterError: The target does not tell, or was not written.
        """
        try:
            await self._sweep()
        except ClusterError:
            await self._bring_rest()
            raise
        await self._bring_rest()

    async def _bring_rest(self) -> None:
        async with self._writing:
            if self._late_since is not None or self._written.keys() - self._commits.keys():
                await self._bring()

    async def _sweep(self) -> None:
        """Forget what has ended everywhere."""
        found = list(self._commits)
        keys = {(part.topic, part.partition) for commit in found for part in commit.parts}
        logs = (await log_ranges(self._target, keys, timeout_s=_ANSWER_S)).values if keys else {}
        stable = {key: log.stable_end for key, log in logs.items()}
        for commit in found:
            if all(stable.get((part.topic, part.partition), -1) >= part.end for part in commit.parts):
                self._commits.pop(commit, None)

    async def leave(self) -> None:
        """Leave nothing in the ledger, unless a transaction may not have ended."""
        with contextlib.suppress(ClusterError, TimeoutError):
            async with asyncio.timeout(_ANSWER_S):
                await self.clean()

    async def _bring(self) -> None:
        brought = dict(self._commits)
        if self._late_since is None:
            self._late_since = time.monotonic()
        await self._write([self._document if brought else Deletion(self._document.key)])
        self._written, self._late_since = brought, None
