"""The partitions of transactions whose commits a gateway forwards, noted in the ledger of their target."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final

from isthmus.errors import ClusterError
from isthmus.kafka.client import Client
from isthmus.kafka.log.offsets import log_ranges
from isthmus.ledger.documents.kinds import PreparedDocument
from isthmus.ledger.records import Deletion, LedgerChange
from isthmus.model.gateways.prepared import PreparedCommit
from isthmus.model.naming import TargetTopicPartition

_log = logging.getLogger(__name__)
_ANSWER_S: Final = 3.0

Write = Callable[[Iterable[LedgerChange]], Awaitable[None]]


class Notes:
    """The notes of one gateway for one link, in one document: notes that come during a write go with the next one.

    `target` is the client of the link's target, and `write` writes into its ledger.
    """

    def __init__(self, link: str, gateway: str, target: Client, write: Write) -> None:
        self._link = link
        self._gateway = gateway
        self._target = target
        self._write = write
        # A producer may have several: it may begin a new transaction before its last commit has its end everywhere.
        self._commits: dict[PreparedCommit, None] = {}
        self._written: dict[PreparedCommit, None] = {}
        self._late_since: float | None = None
        self._writing = asyncio.Lock()

    @property
    def late_s(self) -> float:
        """For how long (s) writes to the ledger have failed; each `clean` tries again."""
        return 0.0 if self._late_since is None else time.monotonic() - self._late_since

    @property
    def are_there(self) -> bool:
        """Whether the ledger may have notes, or is to have some."""
        return bool(self._commits or self._written or self._late_since is not None)

    @property
    def _document(self) -> PreparedDocument:
        return PreparedDocument(link=self._link, gateway=self._gateway, commits=tuple(self._commits))

    async def add(self, commit: PreparedCommit) -> None:
        """Write a commit to the ledger; it is there when this returns.

        :raises ClusterError: The write was rejected, or did not succeed.
        """
        self._commits[commit] = None
        async with self._writing:
            if commit not in self._written:
                await self._bring()

    def forget(self, producer_id: int, ends: Mapping[TargetTopicPartition, int]) -> None:
        """Forget the transaction of this producer whose records are below these offsets of the target's partitions: it
        has ended everywhere. It leaves the ledger with the next write, and does no harm there until then.
        """
        for commit in list(self._commits):
            parts = {(part.topic, part.partition): part.end for part in commit.parts}
            if commit.producer_id == producer_id and parts.items() <= ends.items():
                del self._commits[commit]

    async def clean(self) -> None:
        """Delete from the ledger what has ended everywhere, and retry writes that failed before.

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
        """Forget transactions that have ended everywhere."""
        found = list(self._commits)
        keys = {(part.topic, part.partition) for commit in found for part in commit.parts}
        logs = (await log_ranges(self._target, keys, timeout_s=_ANSWER_S)).values if keys else {}
        stable = {key: log.stable_end for key, log in logs.items()}
        for commit in found:
            if all(stable.get((part.topic, part.partition), -1) >= part.end for part in commit.parts):
                self._commits.pop(commit, None)

    async def leave(self) -> None:
        """Delete the document, unless a transaction may not have ended."""
        with contextlib.suppress(ClusterError, TimeoutError):
            async with asyncio.timeout(_ANSWER_S):
                await self.clean()

    async def _bring(self) -> None:
        brought = dict(self._commits)
        if self._late_since is None:
            self._late_since = time.monotonic()
        await self._write([self._document if brought else Deletion(self._document.key)])
        self._written, self._late_since = brought, None
