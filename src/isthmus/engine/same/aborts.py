"""Copies of the source's transactions at the target.

For lanes that are whole these are all transactions, whichever way they end; for others the aborted ones, which
consumers at read_committed do not see.

A copy is alone, or has a coordinator. *Alone*, its records carry a producer id made from the source's, and a control
record that we write ends it. No coordinator knows of it, so only we write to the partition, and it may stay open as
long as necessary. This needs ALTER on the cluster, and brokers that describe producers (3.0) and do not ask a
coordinator before they accept such records: those before 3.6, and newer ones where
`transaction.partition.verification.enable` is false (KIP-890).

Otherwise aborted transactions are left out (`omission`), or the copy is a transaction of our own whose *coordinator*
writes the control record: a second time if a leader moves before the coordinator has its answer, and by itself when the
transaction times out. Committed transactions are copied record by record then.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from functools import partial
from typing import Final

from isthmus.engine.brokers.routes import TargetRoutes
from isthmus.engine.run import LaneRun
from isthmus.engine.state.writer import ProducerState
from isthmus.engine.target import DESCRIBE_PRODUCERS, producer_states
from isthmus.errors import ClusterError, Unreachable, UnsupportedByBroker
from isthmus.kafka import codes
from isthmus.kafka.batches.batch import SEQUENCE_MASK
from isthmus.kafka.log.listoffsets import LATEST, READ_COMMITTED, list_offsets, log_ends
from isthmus.kafka.permission import Permission
from isthmus.kafka.transactions.transaction import Transaction
from isthmus.model.kafka.transactions import lone_producer_id

NO_PRODUCER: Final = -1
"""The producer id of a control record that belongs to no transaction."""
OWN_PREFIX: Final = "isthmus."
"""The prefix of transactional ids of links."""
KNOWN_MAX: Final = 10_000
"""With so many known transactions the ended ones are dropped: leaders are asked for a producer's next sequence."""
_COORDINATOR_S: Final = 1.0
"""The lane waits, and asks again."""
UNVERIFIED: Final = frozenset(
    {codes.INVALID_TXN_STATE, codes.INVALID_PRODUCER_ID_MAPPING, codes.PRODUCER_FENCED, codes.TRANSACTION_ABORTABLE}
)
"""Errors of a broker that verified a transaction with a coordinator that does not know it: nothing was appended."""
ONCE_HINT: Final = (
    "With ALTER on the cluster, and transactions.aborted: auto on the link or "
    "transaction.partition.verification.enable=false on the target's brokers, no coordinator writes control records "
    "(docs/guarantees.md)."
)
"""Advice on how to avoid a duplicate control record."""


@dataclass(slots=True, kw_only=True)
class LoneTransaction:
    """A transaction that no coordinator knows; its first record opens it.

    `sequence` is the next sequence of its producer in the partition.
    """

    transactional_id: str
    producer_id: int
    epoch: int = 0
    sequence: int = 0
    is_open: bool = False

    def note_appended(self, records: int) -> None:
        """Note that these records were appended: it is open, and the next sequence is behind them."""
        self.sequence, self.is_open = (self.sequence + records) & SEQUENCE_MASK, True


class Aborts:
    """The transactions of all lanes, one for each producer of the source with transactional records.

    `may_send` is checked before each request that changes one.
    """

    def __init__(self, routes: TargetRoutes, link: str, may_send: Permission) -> None:
        self._routes = routes
        self._link = link
        self._may_send = may_send
        self._known: dict[tuple[LaneRun, int], Transaction | LoneTransaction] = {}
        self._asks: set[LaneRun] = set()
        self._quiet: set[LaneRun] = set()
        self._is_verified = False

    def forget(self, run: LaneRun) -> None:
        """Forget the lane's transactions after a new look at its log: their known state may be wrong now."""
        self._quiet.discard(run)
        self._asks.discard(run)
        for key in [key for key in self._known if key[0] is run]:
            del self._known[key]

    def note_verification(self) -> None:
        """Note that brokers verify transactions with a coordinator: none is begun without one from now on."""
        self._is_verified = True

    async def find_coordinator(self, run: LaneRun, transaction: LoneTransaction) -> None:
        """Ask for a coordinator, which makes the cluster create its coordinators. Without any, brokers that verify
        transactions answer NOT_ENOUGH_REPLICAS for ever.
        """
        with contextlib.suppress(ClusterError):
            named = Transaction(self._routes.client, transaction.transactional_id, patience_s=_COORDINATOR_S)
            await named.find(run.target)

    async def may_be_alone(self, run: LaneRun) -> bool:
        """Whether the target accepts records of a transaction that no coordinator knows, as far as known."""
        _, connection = await self._routes.reach(*run.target)
        return DESCRIBE_PRODUCERS in connection.api_versions and not self._is_verified

    async def left_open(self, run: LaneRun, source_producer_id: int) -> Transaction | LoneTransaction | None:
        """Find the open transaction at the target for a producer of the source, None without one.

        :raises ClusterError: As for `find`.
        """
        if await self.ask_whether_quiet(run):
            return None
        transaction = await self.find(run, source_producer_id, may_be_alone=False)
        if transaction.is_open:
            return transaction
        _, connection = await self._routes.reach(*run.target)
        if DESCRIBE_PRODUCERS not in connection.api_versions and isinstance(transaction, Transaction):
            await transaction.initialize()
            await self._check_end(run)
        return None

    async def find_undecided(self, run: LaneRun, source_producer_id: int) -> LoneTransaction | Transaction:
        """Find the transaction for records of a producer of the source before it is known how they end. It is alone,
        unless an earlier owner left one open that has a coordinator.

        :raises ClusterError: As for `find`.
        """
        known = self._known.get(_key(run, source_producer_id))
        if known is None:
            alone = self._find_alone(run, source_producer_id)
            if run in self._asks and alone.producer_id not in run.transactions.alone:
                _place(alone, await self._state(run, alone.producer_id))
            if alone.is_open or not run.transactions.others_open:
                known = alone
                self._remember(_key(run, source_producer_id), alone)
            else:
                known = await self.find(run, source_producer_id, may_be_alone=True)
        return known

    def left_alone(self, run: LaneRun, source_producer_id: int) -> LoneTransaction | None:
        """Find the open transaction without a coordinator for a producer of the source, of any owner; None without
        one.
        """
        known = self._known.get(_key(run, source_producer_id))
        if known is None:
            known = self._find_alone(run, source_producer_id)
            if known.is_open:
                self._remember(_key(run, source_producer_id), known)
        return known if isinstance(known, LoneTransaction) and known.is_open else None

    def all_left_alone(self, run: LaneRun) -> list[LoneTransaction]:
        """Find all open transactions without a coordinator."""
        producers = {*run.transactions.alone, *(producer for each, producer in self._known if each is run)} - {
            NO_PRODUCER
        }
        found = (self.left_alone(run, each) for each in sorted(producers))
        return [transaction for transaction in found if transaction is not None]

    def _find_alone(self, run: LaneRun, producer_id: int) -> LoneTransaction:
        """The transaction for a producer, in the state from when the lane's place was found."""
        alone = LoneTransaction(
            transactional_id=self._name(run, str(producer_id)), producer_id=lone_producer_id(producer_id)
        )
        _place(alone, run.transactions.alone.get(alone.producer_id))
        return alone

    def _remember(self, key: tuple[LaneRun, int], transaction: Transaction | LoneTransaction) -> None:
        if len(self._known) >= KNOWN_MAX:
            ended = {
                known for known, each in self._known.items() if isinstance(each, LoneTransaction) and not each.is_open
            }
            for known in ended:
                del self._known[known]
            for run in {run for run, _ in ended}:
                # Their state from the lane's last look is out of date by now.
                run.transactions.outdate({producer for each, producer in ended if each is run})
                self._asks.add(run)
        self._known[key] = transaction

    def _name(self, run: LaneRun, purpose: str) -> str:
        return f"{OWN_PREFIX}{self._link}.{run.lane.key}.{purpose}"

    async def ask_whether_quiet(self, run: LaneRun) -> bool:
        """Whether no transaction, ours or another, is open in the lane's partition at the target. A yes is kept.

        :raises ClusterError: The target does not answer.
        """
        if run not in self._quiet:
            leader, connection = await self._routes.reach(*run.target)
            stables = await list_offsets(connection, {run.target: leader.epoch}, LATEST, isolation=READ_COMMITTED)
            stable = stables[run.target]
            if stable.error_code != codes.NONE:
                raise self._doubt_error(run, f"its stable end: {codes.name_of(stable.error_code)}")
            if stable.offset < run.writer.position:
                return False
            self._quiet.add(run)
        return True

    async def find(self, run: LaneRun, source_producer_id: int, *, may_be_alone: bool) -> Transaction | LoneTransaction:
        """Find the transaction for aborted records of a producer of the source. It is open if an earlier owner left it
        open. Waits while a coordinator is ending it.

        :raises ClusterError: The target does not answer, or the log has grown since the last look.
        """
        key = _key(run, source_producer_id)
        transaction = self._known.get(key)
        is_closed = isinstance(transaction, LoneTransaction) and not transaction.is_open
        if transaction is None or (is_closed and self._is_verified):
            transaction = await self._look_for(run, source_producer_id, may_be_alone=may_be_alone)
            await self._check_end(run)
            self._remember(key, transaction)
        return transaction

    async def open(self, run: LaneRun, transaction: Transaction | LoneTransaction) -> None:
        """Prepare the transaction for records, or for an end without any.

        :raises ClusterError: As for `find`.
        """
        self._quiet.discard(run)
        if transaction.is_open or isinstance(transaction, LoneTransaction):
            return
        if transaction.producer_id < 0:
            await transaction.initialize()
            await self._check_end(run)
        await transaction.begin(run.target)

    async def _look_for(
        self, run: LaneRun, source_producer_id: int, *, may_be_alone: bool
    ) -> Transaction | LoneTransaction:
        purpose = "marker" if source_producer_id == NO_PRODUCER else str(source_producer_id)
        may_send = partial(self._may_send_for, run)
        transaction = Transaction(self._routes.client, self._name(run, purpose), may_send=may_send)
        # Where brokers cannot describe it, `initialize` aborts a transaction left open, which shows in the log's end.
        with contextlib.suppress(UnsupportedByBroker):
            await transaction.find(run.target)
        if transaction.is_open:
            # It may hold no record yet.
            state = await self._state(run, transaction.producer_id)
            transaction.continue_at(_next(state) if state is not None and state.epoch == transaction.epoch else 0)
            return transaction
        if source_producer_id == NO_PRODUCER:
            return transaction
        alone = self._find_alone(run, source_producer_id)
        _place(alone, await self._state(run, alone.producer_id))
        return alone if alone.is_open or (may_be_alone and await self.may_be_alone(run)) else transaction

    def _may_send_for(self, run: LaneRun) -> bool:
        return self._may_send() and not run.is_over

    async def _state(self, run: LaneRun, producer_id: int) -> ProducerState | None:
        _, connection = await self._routes.reach(*run.target)
        return (await producer_states(connection, [run.target], producer_id)).get(run.target)

    async def _check_end(self, run: LaneRun) -> None:
        """Raise an error if the log has grown: an earlier owner's transaction may have ended since the last look."""
        leader, connection = await self._routes.reach(*run.target)
        end = (await log_ends(connection, {run.target: leader.epoch}))[run.target]
        if end.error_code != codes.NONE or end.offset != run.writer.position:
            raise self._doubt_error(run, f"{codes.name_of(end.error_code)} at {end.offset}")

    def _doubt_error(self, run: LaneRun, what: str) -> Unreachable:
        return Unreachable(
            f"the end of {run.lane.key} has to be looked up again: {what}",
            cluster=self._routes.client.cluster.alias,
        )


def _key(run: LaneRun, producer_id: int) -> tuple[LaneRun, int]:
    """The key of the transaction for a producer of the source. Records written by a link have a lone id already."""
    return run, lone_producer_id(producer_id)


def _place(alone: LoneTransaction, state: ProducerState | None) -> None:
    """Set the transaction to the leader's producer state. The epoch is later if a failover aborted the copy since."""
    alone.epoch, alone.sequence, alone.is_open = 0, 0, False
    if state is not None:
        alone.epoch, alone.sequence, alone.is_open = state.epoch, _next(state), state.transaction_start >= 0


def _next(state: ProducerState) -> int:
    return (state.last_sequence + 1) & SEQUENCE_MASK
