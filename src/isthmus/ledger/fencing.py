"""Writing to the ledger as the only controller of a link.

Every write is a transaction of one transactional id. Whoever takes the link over calls InitProducerId for it, and the
brokers refuse the controller before at its next write (KIP-98). Transactions are driven the way of clients before
KIP-890 ("TV1"), which every broker understands.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import Any, Final

from kafka.protocol.producer import AddPartitionsToTxnRequest, EndTxnRequest, InitProducerIdRequest

from isthmus.errors import BrokerRefused, ClusterError, Fenced, Unreachable
from isthmus.ledger.documents import ControllerDocument
from isthmus.ledger.log import RETRY_S, LedgerLeader
from isthmus.ledger.records import Change, packed
from isthmus.ledger.topic import LEDGER_TOPIC, PARTITION
from isthmus.model.rights import on_topic, on_transactional_id
from isthmus.wire import codes
from isthmus.wire.batch import HEADER_BYTES, stamp
from isthmus.wire.client import Client

_TIMEOUT_MS: Final = 20_000
_PAUSE_S: Final = 0.005
_PATIENCE_S: Final = 5.0
_EPOCH_BITS: Final = 16
_INVALID_PRODUCER_ID_MAPPING: Final = 49
_FENCED: Final = frozenset({codes.INVALID_PRODUCER_EPOCH, codes.PRODUCER_FENCED, _INVALID_PRODUCER_ID_MAPPING})
_DOUBTFUL: Final = _FENCED | {codes.INVALID_TXN_STATE, codes.OUT_OF_ORDER_SEQUENCE_NUMBER, codes.REQUEST_TIMED_OUT}


class FencedWriter:
    """The transactional writer of one controller. `generation` is larger than that of every controller before."""

    def __init__(self, client: Client, link: str) -> None:
        self.link = link
        self.transactional_id = f"isthmus.{link}.controller"
        self.generation = -1
        self._client = client
        self._leader = LedgerLeader(client)
        self._producer_id = -1
        self._epoch = -1
        self._sequence = 0
        self._is_sound = False

    def close(self) -> None:
        self._leader.close()

    @property
    def is_later(self) -> bool:
        """Whether there was a controller before, as far as the brokers remember (a week)."""
        return self._epoch > 0

    async def take_over(self) -> int:
        """Fence whoever wrote before; the generation of this controller. Nothing of theirs can be written any more.

        It is made of the producer id and epoch the brokers gave, so it grows even when the ledger was lost; mostly, see
        `outrank`.

        :raises ClusterError: The coordinator does not answer or does not allow it.
        """
        self._producer_id, self._epoch = await self._initialise(-1, -1)
        self._sequence = 0
        self._is_sound = True
        self.generation = self._producer_id << _EPOCH_BITS | self._epoch
        return self.generation

    def outrank(self, generation: int) -> None:
        """Be later than a controller of which the ledger tells. Every broker has producer ids of its own to give, so
        that of another coordinator may be a lower one (after a week without a controller, or 32,000 of them).
        """
        self.generation = max(self.generation, generation + 1)

    async def append(self, changes: Iterable[Change], *, term_s: float = 60.0) -> None:
        """Write all changes in one transaction, trying again for `term_s`.

        :raises Fenced: Another controller has taken the link over.
        :raises ClusterError: It was refused, or did not succeed in time; it may or may not have been written.
        """
        batch = packed(changes)
        deadline = time.monotonic() + term_s
        while True:
            try:
                if not self._is_sound:
                    await self._recover()
                self._is_sound = False
                await self._add_partition()
                header = stamp(batch, self._producer_id, self._epoch, self._sequence, transactional=True)
                records = batch.view[HEADER_BYTES:]
                await self._leader.produce(header, records, transactional_id=self.transactional_id)
                await self._commit()
            except ClusterError as error:
                doubtful = isinstance(error, Unreachable) or _code(error) in _DOUBTFUL
                if not doubtful or time.monotonic() + RETRY_S > deadline:
                    raise
                await asyncio.sleep(RETRY_S)
            else:
                self._sequence += batch.record_count
                self._is_sound = True
                return

    async def _recover(self) -> None:
        """After a failure nobody knows what was written: abort it and begin with another epoch (KIP-360).

        The brokers grant this to the newest controller alone, also when they aborted its transaction for being slow.
        """
        try:
            self._producer_id, self._epoch = await self._initialise(self._producer_id, self._epoch)
        except BrokerRefused as error:
            if error.code in _FENCED:
                raise fenced(self.link) from error
            raise
        self._sequence = 0

    async def _initialise(self, producer_id: int, epoch: int) -> tuple[int, int]:
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=_TIMEOUT_MS,
            producer_id=producer_id,
            producer_epoch=epoch,
            max_version=4,
        )
        answer = await self._ask(request, lambda answer: answer.error_code, "taking over the ledger")
        return answer.producer_id, answer.producer_epoch

    async def _add_partition(self) -> None:
        topic: Any = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self._producer_id,
            v3_and_below_producer_epoch=self._epoch,
            v3_and_below_topics=[topic(name=LEDGER_TOPIC, partitions=[PARTITION])],
            max_version=3,
        )
        await self._ask(
            request,
            lambda answer: answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code,
            "writing the ledger in a transaction",
        )

    async def _commit(self) -> None:
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            committed=True,
            max_version=4,
        )
        await self._ask(request, lambda answer: answer.error_code, "committing to the ledger")

    async def _ask(self, request: Any, code_of: Callable[[Any], int], what: str) -> Any:
        """Ask the coordinator, as long as it is only busy or elsewhere.

        :raises Unreachable: It did not answer, or stayed busy.
        :raises ClusterError: It refused.
        """
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            answer = await self._client.coordinator("transaction", self.transactional_id, request)
            code = code_of(answer)
            if code == codes.NONE:
                return answer
            if code in codes.COORDINATOR_MOVED:
                self._client.forget_coordinator("transaction", self.transactional_id)
            elif code != codes.CONCURRENT_TRANSACTIONS:
                self._refuse(code, what)
            if time.monotonic() > deadline:
                raise Unreachable(
                    f"the transaction coordinator of {self._client.cluster.alias} is not ready: {codes.name_of(code)}",
                    cluster=self._client.cluster.alias,
                    hint="Check the brokers that hold __transaction_state.",
                )
            # The markers of the transaction before are being written; that takes a few milliseconds.
            await asyncio.sleep(_PAUSE_S)

    def _refuse(self, code: int, what: str) -> None:
        what = f"{what} under transactional id {self.transactional_id}"
        rights = on_transactional_id("WRITE", self.transactional_id), on_topic("WRITE", LEDGER_TOPIC)
        codes.raise_for_code(code, what, *rights, cluster=self._client.cluster.alias)


def fenced(link: str, by: ControllerDocument | None = None) -> Fenced:
    """That another controller has taken the link over, and which one, if that is known."""
    return Fenced(
        f"{by.described if by else 'another controller'} has taken link {link} over",
        hint="Only one controller runs a link, and this one has ended. To run the link here again, end the other one "
        "first, or take it back with isthmus run --take-over.",
    )


def _code(error: ClusterError) -> int:
    return error.code if isinstance(error, BrokerRefused) else codes.NONE
