"""The claim to recover a link or to let go of it: one process at a time has it, others are refused with its name."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from isthmus.errors import ClusterError, Fenced, PlanRefused
from isthmus.kafka.client import Client
from isthmus.kafka.clock import lasting_s
from isthmus.ledger.documents.kinds import RecoveryClaimDocument
from isthmus.ledger.documents.recovery import RECOVERS
from isthmus.ledger.fencing import FencedWriter
from isthmus.ledger.pulse import BEAT_S, SILENCE_S
from isthmus.ledger.records import Deletion, LedgerChange
from isthmus.ledger.topic import on_topic
from isthmus.local.host import whereabouts
from isthmus.local.operator import operator
from isthmus.memory.operators import build_recovering, require_nobody_recovers
from isthmus.model.configuration import LedgerSettings

FAREWELL_S: Final = 5.0
"""The longest wait for the ledger when a claim is given up. After that its silence has the same effect."""
TERM_S: Final = 60.0
_HELD_S: Final = SILENCE_S / 2
_ROLE: Final = "recovery"


class RecoveryClaim:
    """The right to recover a link, or to let go of it. All that its owner writes into the ledger goes through it, and
    fails with an error that names the new owner once another process has taken it. Writes are retried for `term_s`.
    `does` says what its owner does with the link.
    """

    def __init__(
        self,
        target: Client,
        link: str,
        ledger: LedgerSettings,
        *,
        does: str = RECOVERS,
        term_s: float = TERM_S,
        farewell_s: float = FAREWELL_S,
    ) -> None:
        self._target, self._link, self._ledger, self._term_s = target, link, ledger, term_s
        self._does = does
        self._writer = FencedWriter(target, link, role=_ROLE)
        self._writing = asyncio.Lock()
        self._beat = 0
        self._farewell_s = farewell_s
        self._held_from = -_HELD_S

    async def write(self, *changes: LedgerChange) -> None:
        """Write documents, all or none; durable when this returns.

        :raises PlanRefused: Another process recovers the link now.
        :raises ClusterError: The ledger cannot be written.
        """
        append = partial(self._writer.append, changes, term_s=self._term_s)
        try:
            async with self._writing:
                begun = lasting_s()
                await on_topic(self._target, append, replication_factor=self._ledger.replication_factor)
                self._held_from = begun
        except Fenced as error:
            raise build_recovering(self._link, "another process") from error

    @property
    def is_held(self) -> bool:
        """Whether no other process can have taken it by now: that takes a longer silence."""
        return lasting_s() - self._held_from < _HELD_S

    async def _open(self) -> None:
        silent = await require_nobody_recovers(self._link, self._target)
        await on_topic(self._target, self._writer.take_over, replication_factor=self._ledger.replication_factor)
        # A process that came at the same moment has written its claim by now, or will be refused.
        try:
            factor = self._ledger.replication_factor
            async with self._writer.looking(replication_factor=factor, term_s=self._term_s):
                await require_nobody_recovers(self._link, self._target, silent)
        except Fenced as error:
            raise build_recovering(self._link, "another process") from error
        await self.write(self._claim())

    def _claim(self) -> RecoveryClaimDocument:
        self._beat += 1
        here = whereabouts()
        return RecoveryClaimDocument(
            link=self._link,
            by=operator(),
            beat=self._beat,
            does=self._does,
            host=here.host,
            host_id=here.host_id,
            pid=here.pid,
            process_start=here.process_start,
        )

    async def _live(self) -> None:
        while True:
            await asyncio.sleep(BEAT_S)
            # A process that has taken it shows at the next step; a ledger that is away for a while ends nothing.
            with contextlib.suppress(ClusterError, PlanRefused):
                await self.write(self._claim())

    async def give_up(self) -> None:
        """Let others recover the link. Where the ledger cannot be written, they take it over after a while."""
        try:
            with contextlib.suppress(ClusterError, PlanRefused, TimeoutError):
                async with asyncio.timeout(self._farewell_s):
                    await self.write(Deletion(RecoveryClaimDocument.key_of(self._link)))
        finally:
            self._writer.close()


@asynccontextmanager
async def hold_claim(
    target: Client, link: str, ledger: LedgerSettings, *, does: str = RECOVERS, term_s: float = TERM_S
) -> AsyncIterator[RecoveryClaim]:
    """Hold the right to recover a link, or to let go of it, for as long as the block lasts; writes into the ledger are
    retried for `term_s`.

    :raises PlanRefused: Another process has the right.
    :raises ClusterError: The ledger cannot be read or written.
    """
    claim = RecoveryClaim(target, link, ledger, does=does, term_s=term_s)
    await claim._open()
    living = asyncio.create_task(claim._live())
    try:
        yield claim
    finally:
        living.cancel()
        await asyncio.gather(living, return_exceptions=True)
        await claim.give_up()
