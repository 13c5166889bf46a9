"""Writing to the ledger as the only controller of a link.

Every write is a transaction of one transactional id. A controller that takes the link over calls InitProducerId for it,
and the brokers refuse the previous controller at its next write (KIP-98).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from typing import Final, TypeVar

from isthmus.deadline import Deadline
from isthmus.errors import BrokerRefused, ClusterError, Fenced, Unreachable, UnsupportedByBroker
from isthmus.kafka import codes
from isthmus.kafka.client import Client
from isthmus.kafka.transactions.transaction import Transaction
from isthmus.ledger.documents.kinds import ControllerDocument
from isthmus.ledger.log import RETRY_S, LedgerLeader, ToShow
from isthmus.ledger.records import Deletion, LedgerChange, mark_key, pack_changes
from isthmus.ledger.topic import on_topic

_ChangeT = TypeVar("_ChangeT", bound=LedgerChange)
CONTENTION_S: Final = 30.0
"""Writers of the same documents at the same time get their turn within so many seconds."""
_PAUSE_S: Final = 0.1
_PAUSE_MAX_S: Final = 2.0
_TIMEOUT_MS: Final = 20_000
_PATIENCE_S: Final = 5.0
_EPOCH_BITS: Final = 16
_DOUBTFUL: Final = (
    codes.PRODUCER_MOVED
    | codes.COORDINATOR_MOVED
    | {
        codes.INVALID_TXN_STATE,
        codes.OUT_OF_ORDER_SEQUENCE_NUMBER,
        codes.REQUEST_TIMED_OUT,
    }
)


class FencedWriter:
    """The transactional writer of one controller, or of another `role` with a single writer at a time.

    `generation` is larger than that of every writer before.
    """

    def __init__(self, client: Client, link: str, *, role: str = "controller") -> None:
        self.link = link
        self.generation = -1
        self._client = client
        self._mark = Deletion(mark_key(link, role))
        self._leader = LedgerLeader(client)
        self._transaction = Transaction(
            client,
            f"isthmus.{link}.{role}",
            timeout_ms=_TIMEOUT_MS,
            patience_s=_PATIENCE_S,
            # Not retried: the owner has to know that the ledger is gone.
            passing=codes.TRANSACTION_PASSES - {codes.UNKNOWN_TOPIC_OR_PARTITION},
        )
        self._is_sound = False

    def close(self) -> None:
        self._leader.close()

    def held_since(self, begun: float) -> bool:
        """Whether brokers have delayed requests since `begun` (monotonic) because of a quota."""
        return max(self._leader.muted_until, self._client.muted_until) > begun

    @property
    def muted_until(self) -> float:
        """The time (monotonic) until which nothing can be written over the present connection."""
        return self._leader.muted_until

    def renew(self) -> None:
        """Use another connection from now on."""
        self._leader.close()

    @property
    def is_later(self) -> bool:
        """Whether there was a controller before, as far as the brokers still know (a week)."""
        return self._transaction.epoch > 0

    async def take_over(self) -> int:
        """Fence the previous writer, which cannot write any more. Return the generation of this controller.

        It is built from the producer id and epoch that the brokers gave, so it grows even when the ledger was lost; for
        exceptions see `outrank`.

        :raises ClusterError: The coordinator does not answer or does not allow it.
        """
        await self._transaction.initialize()
        self._is_sound = True
        self.generation = self._transaction.producer_id << _EPOCH_BITS | self._transaction.epoch
        return self.generation

    @asynccontextmanager
    async def looking(self, *, replication_factor: int | None = None, term_s: float = 60.0) -> AsyncIterator[None]:
        """Within the block, each look at the ledger with this client shows all that was written before this writer took
        over, or fails. A leader of the ledger that is cut off from its peers would show an older state, but it cannot
        show the mark that is written here. Writing the mark is tried for `term_s`; the topic is created if missing.

        :raises Fenced: Another controller has taken the link over.
        :raises ClusterError: The ledger cannot be written.
        """
        mark = partial(self.append, [self._mark], term_s=term_s)
        offset = await on_topic(self._client, mark, replication_factor=replication_factor)
        with self._client.companion(ToShow).at_least(offset):
            yield

    def outrank(self, generation: int) -> None:
        """Make the generation larger than that of a controller in the ledger. Every broker gives producer ids from a
        range of its own, so another coordinator may give a lower one (after a week without a controller, or 32,000 of
        them).
        """
        self.generation = max(self.generation, generation + 1)

    async def append(self, changes: Iterable[LedgerChange], *, term_s: float = 60.0) -> int:
        """Write all changes in one transaction, with retries for `term_s`. Return the offset of the last one.

        :raises Fenced: Another controller has taken the link over.
        :raises ClusterError: The write was refused, or did not succeed in time; it may or may not be in the log.
        """
        batch = pack_changes(changes)
        deadline = Deadline(term_s)
        while True:
            try:
                if not self._is_sound:
                    await self._recover()
                self._is_sound = False
                base = await self._transaction.write(self._leader, batch)
            except ClusterError as error:
                doubtful = isinstance(error, Unreachable) or _code(error) in _DOUBTFUL
                if not doubtful or deadline.passes_within(RETRY_S):
                    raise
                await asyncio.sleep(RETRY_S)
            else:
                self._is_sound = True
                return base + batch.record_count - 1

    async def _recover(self) -> None:
        """After a failure with unknown result, have the transaction aborted and use a new epoch (KIP-360).

        The brokers allow this to the newest controller only. No writer aborts its own transaction by `end`: see
        `Transaction.reclaim`.

        :raises Fenced: Another controller has taken the link over.
        :raises ClusterError: The coordinator does not answer or does not allow it.
        """
        try:
            await self._raise_epoch()
        except Fenced:
            if not await self._was_aborted():
                raise
            await self._raise_epoch()

    async def _raise_epoch(self) -> None:
        try:
            await self._transaction.initialize(is_mine=True)
        except BrokerRefused as error:
            if error.code in codes.PRODUCER_MOVED:
                raise build_fenced(self.link) from error
            raise

    async def _was_aborted(self) -> bool:
        """Whether the coordinator raised the epoch by aborting the open transaction, and not another controller."""
        try:
            return await self._transaction.reclaim()
        except UnsupportedByBroker:
            return False


async def write_by_one(
    client: Client,
    what: str,
    made: Callable[[], Awaitable[_ChangeT]],
    *,
    role: str,
    replication_factor: int | None,
    contention_s: float = CONTENTION_S,
) -> _ChangeT:
    """Append the change that `made` builds from the newest state of the ledger. Another writer of `what` in the same
    `role` at the same time is fenced, and looks again, so that it sees this change; after `contention_s` it gives up.

    :raises Fenced: Others keep writing, and this writer gives up.
    :raises ClusterError: The ledger cannot be read or written, or `made` raised it.
    """
    deadline, pause_s = Deadline(contention_s), _PAUSE_S
    while True:
        writer = FencedWriter(client, what, role=role)
        try:
            await writer.take_over()
            async with writer.looking(replication_factor=replication_factor):
                change = await on_topic(client, made, replication_factor=replication_factor)
            append = partial(writer.append, [change])
            await on_topic(client, append, replication_factor=replication_factor)
        except Fenced as error:
            if deadline.has_passed:
                raise Fenced(
                    f"others keep changing {what} at the same time",
                    hint="Look how it stands, and try again when they are done.",
                ) from error
        else:
            return change
        finally:
            writer.close()
        # Random pauses end the state in which writers fence one another at every look.
        await asyncio.sleep(random.uniform(0, pause_s))
        pause_s = min(2 * pause_s, _PAUSE_MAX_S)


def build_fenced(link: str, by: ControllerDocument | None = None) -> Fenced:
    """The error that another controller has taken the link over; `by` names it if known."""
    return Fenced(
        f"{by.described if by else 'another controller'} has taken link {link} over",
        hint="Only one controller runs a link, and this one has ended. To run the link here again, end the other one "
        "first, or take it back with isthmus run --take-over.",
    )


def _code(error: ClusterError) -> int:
    return error.code if isinstance(error, BrokerRefused) else codes.NONE
