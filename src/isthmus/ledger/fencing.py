"""Writing to the ledger as the only controller of a link.

Every write is a transaction of one transactional id. Whoever takes the link over calls InitProducerId for it, and the
brokers refuse the controller before at its next write (KIP-98).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from typing import Final, TypeVar

from isthmus.cluster.transaction import Transaction
from isthmus.deadline import Deadline
from isthmus.errors import BrokerRefused, ClusterError, Fenced, Unreachable, UnsupportedByBroker
from isthmus.ledger.documents import ControllerDocument
from isthmus.ledger.log import RETRY_S, LedgerLeader, ToShow
from isthmus.ledger.records import Deletion, LedgerChange, mark_key, packed
from isthmus.ledger.topic import LEDGER_TOPIC, PARTITION, on_topic
from isthmus.wire import codes
from isthmus.wire.batch import HEADER_BYTES, stamp
from isthmus.wire.client import Client

_ChangeT = TypeVar("_ChangeT", bound=LedgerChange)
CONTENTION_S: Final = 30.0
"""So long several that write the same one after another come to their turn."""
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
    """The transactional writer of one controller, or of another `role` of which there is one at a time.

    `generation` is larger than that of every one before.
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
            # That there is no ledger any more is for its owner to hear.
            passing=codes.TRANSACTION_PASSES - {codes.UNKNOWN_TOPIC_OR_PARTITION},
        )
        self._is_sound = False

    def close(self) -> None:
        self._leader.close()

    def held_since(self, begun: float) -> bool:
        """Whether brokers have held something back since then (monotonic), as a quota is used up."""
        return max(self._leader.muted_until, self._client.muted_until) > begun

    @property
    def muted_until(self) -> float:
        """Until when (monotonic) nothing can be written over the connection that there is."""
        return self._leader.muted_until

    def renew(self) -> None:
        """Write over another connection from now on."""
        self._leader.close()

    @property
    def is_later(self) -> bool:
        """Whether there was a controller before, as far as the brokers remember (a week)."""
        return self._transaction.epoch > 0

    async def take_over(self) -> int:
        """Fence whoever wrote before; the generation of this controller. Nothing of theirs can be written any more.

        It is made of the producer id and epoch the brokers gave, so it grows even when the ledger was lost; mostly, see
        `outrank`.

        :raises ClusterError: The coordinator does not answer or does not allow it.
        """
        await self._transaction.initialize()
        self._is_sound = True
        self.generation = self._transaction.producer_id << _EPOCH_BITS | self._transaction.epoch
        return self.generation

    @asynccontextmanager
    async def looking(self, *, replication_factor: int | None = None, term_s: float = 60.0) -> AsyncIterator[None]:
        """For as long as the block lasts, whoever begins to look at the ledger with this client sees all that was
        written before this writer took over, or fails. A leader of the ledger that is cut off from its peers would show
        an older state for as long as it is asked, but not the mark that is written here. Writing the mark is
        tried for `term_s`; the topic is created if need be.

        :raises Fenced: Another controller has taken the link over.
        :raises ClusterError: The ledger cannot be written.
        """
        mark = partial(self.append, [self._mark], term_s=term_s)
        offset = await on_topic(self._client, mark, replication_factor=replication_factor)
        with self._client.companion(ToShow).at_least(offset):
            yield

    def outrank(self, generation: int) -> None:
        """Be later than a controller of which the ledger tells. Every broker has producer ids of its own to give, so
        that of another coordinator may be a lower one (after a week without a controller, or 32,000 of them).
        """
        self.generation = max(self.generation, generation + 1)

    async def append(self, changes: Iterable[LedgerChange], *, term_s: float = 60.0) -> int:
        """Write all changes in one transaction, trying again for `term_s`; the offset of the last one.

        :raises Fenced: Another controller has taken the link over.
        :raises ClusterError: It was refused, or did not succeed in time; it may or may not have been written.
        """
        batch = packed(changes)
        deadline = Deadline(term_s)
        transaction = self._transaction
        while True:
            try:
                if not self._is_sound:
                    await self._recover()
                self._is_sound = False
                # A transaction that is open while nothing can be written is aborted by its coordinator.
                await self._leader.unmuted()
                await transaction.begin((LEDGER_TOPIC, PARTITION))
                header = stamp(
                    batch, transaction.producer_id, transaction.epoch, transaction.sequence, transactional=True
                )
                records = batch.view[HEADER_BYTES:]
                base = await self._leader.produce(header, records, transactional_id=transaction.transactional_id)
                await transaction.end(commit=True)
            except ClusterError as error:
                doubtful = isinstance(error, Unreachable) or _code(error) in _DOUBTFUL
                if not doubtful or deadline.passes_within(RETRY_S):
                    raise
                await asyncio.sleep(RETRY_S)
            else:
                transaction.sequence += batch.record_count
                self._is_sound = True
                return base + batch.record_count - 1

    async def _recover(self) -> None:
        """After a failure nobody knows what was written: have it aborted and begin with another epoch (KIP-360).

        The brokers grant this to the newest controller alone. Nobody ends such a transaction as an abort of its own:
        see `Transaction.reclaim`.

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
                raise fenced(self.link) from error
            raise

    async def _was_aborted(self) -> bool:
        """Whether the coordinator raised the epoch, as it aborted what was open, and not another controller."""
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
    """Append what is `made` of the newest state of the ledger. Whoever writes `what` in the same `role` at the same
    time is fenced, looks again and so sees what this one wrote; after `contention_s` it gives way instead.

    :raises Fenced: Others write, and this one gives way.
    :raises ClusterError: The ledger cannot be read or written, or what `made` raises.
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
        # Whoever fences one another at every look comes to an end when each waits as long as chance has it.
        await asyncio.sleep(random.uniform(0, pause_s))
        pause_s = min(2 * pause_s, _PAUSE_MAX_S)


def fenced(link: str, by: ControllerDocument | None = None) -> Fenced:
    """That another controller has taken the link over, and which one, if that is known."""
    return Fenced(
        f"{by.described if by else 'another controller'} has taken link {link} over",
        hint="Only one controller runs a link, and this one has ended. To run the link here again, end the other one "
        "first, or take it back with isthmus run --take-over.",
    )


def _code(error: ClusterError) -> int:
    return error.code if isinstance(error, BrokerRefused) else codes.NONE
