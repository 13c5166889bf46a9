"""Transactions of the source, as they are at the target.

Those of lanes that are whole, whichever way they end, and aborted ones, of which nobody sees anything who reads
committed records only.

Alone, or with a coordinator. *Alone*, the records carry a producer id made of the source's, and a control record we
write ends them. No coordinator knows of it, so nobody but us writes to the partition, and it may stay open for as long
as need be. That takes ALTER on the cluster, and brokers that tell what they know of a producer (3.0) and do not ask a
coordinator before they take such records: those before 3.6, and newer ones where
`transaction.partition.verification.enable` is false (KIP-890).

Otherwise aborted ones are left out (`omission`), or it is a transaction of our own whose *coordinator* writes the
control record: a second time if a leader goes before it has heard of the first, and unasked when the transaction runs
out. Committed ones are copied record by record then.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from functools import partial
from typing import Final

from isthmus.cluster.transaction import Transaction
from isthmus.errors import ClusterError, Unreachable, UnsupportedByBroker
from isthmus.lane.routes import Routes
from isthmus.lane.run import LaneRun
from isthmus.lane.target import DESCRIBE_PRODUCERS, producer_states
from isthmus.lane.writer import ProducerState
from isthmus.model.transactions import lone_producer_id
from isthmus.wire import codes
from isthmus.wire.batch import SEQUENCE_MASK
from isthmus.wire.offsets import LATEST, READ_COMMITTED, list_offsets, log_ends
from isthmus.wire.permission import Permission

NO_PRODUCER: Final = -1
"""Stands for the producer of a control record that belongs to no transaction."""
OWN_PREFIX: Final = "isthmus."
"""With what transactional ids of links begin."""
KNOWN_MAX: Final = 10_000
"""When so many are known those that have ended are forgotten: leaders are asked for the next sequence of a producer."""
_COORDINATOR_S: Final = 1.0
"""The lane waits, and asks again."""
UNVERIFIED: Final = frozenset(
    {codes.INVALID_TXN_STATE, codes.INVALID_PRODUCER_ID_MAPPING, codes.PRODUCER_FENCED, codes.TRANSACTION_ABORTABLE}
)
"""Answers of a broker that asked a coordinator, which knows nothing of the transaction: nothing was appended."""
ONCE_HINT: Final = (
    "With ALTER on the cluster, and transactions.aborted: auto on the link or "
    "transaction.partition.verification.enable=false on the target's brokers, no coordinator writes control records "
    "(docs/guarantees.md)."
)
"""How a control record too many is avoided."""


@dataclass(slots=True, kw_only=True)
class LoneTransaction:
    """A transaction that no coordinator knows of; its first record opens it.

    `sequence` is the next sequence of its producer in the partition.
    """

    transactional_id: str
    producer_id: int
    epoch: int = 0
    sequence: int = 0
    is_open: bool = False


class Aborts:
    """The transactions of all lanes: one for each producer of the source whose records are in one.

    `may_send` is asked before anything leaves that changes one.
    """

    def __init__(self, routes: Routes, link: str, may_send: Permission) -> None:
        self._routes = routes
        self._link = link
        self._may_send = may_send
        self._known: dict[tuple[LaneRun, int], Transaction | LoneTransaction] = {}
        self._asks: set[LaneRun] = set()
        self._quiet: set[LaneRun] = set()
        self._is_verified = False

    def forget(self, run: LaneRun) -> None:
        """The lane was looked at anew: what is known of its transactions may be wrong now."""
        self._quiet.discard(run)
        self._asks.discard(run)
        for key in [key for key in self._known if key[0] is run]:
            del self._known[key]

    def verified(self) -> None:
        """A broker asked a coordinator before it took a record: no transaction begins without one from now on."""
        self._is_verified = True

    async def find_coordinator(self, run: LaneRun, transaction: LoneTransaction) -> None:
        """Have there be coordinators: a cluster has none before somebody asks for one. Without any, brokers that verify
        transactions answer NOT_ENOUGH_REPLICAS for ever.
        """
        with contextlib.suppress(ClusterError):
            named = Transaction(self._routes.client, transaction.transactional_id, patience_s=_COORDINATOR_S)
            await named.find(run.target)

    async def may_be_alone(self, run: LaneRun) -> bool:
        """Whether the target takes records of a transaction that no coordinator knows, as far as it was asked."""
        _, connection = await self._routes.reach(*run.target)
        return DESCRIBE_PRODUCERS in connection.api_versions and not self._is_verified

    async def left_open(self, run: LaneRun, source_producer_id: int) -> Transaction | LoneTransaction | None:
        """The transaction for a producer of the source that is open at the target, None without one.

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

    async def undecided(self, run: LaneRun, source_producer_id: int) -> LoneTransaction | Transaction:
        """The transaction for records of a producer of the source of which nobody knows how they end. It is alone,
        unless an earlier owner left one open that has a coordinator.

        :raises ClusterError: As for `find`.
        """
        known = self._known.get(_key(run, source_producer_id))
        if known is None:
            alone = self._alone(run, source_producer_id)
            if run in self._asks and alone.producer_id not in run.alone:
                _place(alone, await self._state(run, alone.producer_id))
            if alone.is_open or not run.others_open:
                known = alone
                self._remember(_key(run, source_producer_id), alone)
            else:
                known = await self.find(run, source_producer_id, may_be_alone=True)
        return known

    def left_alone(self, run: LaneRun, source_producer_id: int) -> LoneTransaction | None:
        """The transaction for a producer of the source that is open and has no coordinator, whoever began it; None
        without one.
        """
        known = self._known.get(_key(run, source_producer_id))
        if known is None:
            known = self._alone(run, source_producer_id)
            if known.is_open:
                self._remember(_key(run, source_producer_id), known)
        return known if isinstance(known, LoneTransaction) and known.is_open else None

    def all_left_alone(self, run: LaneRun) -> list[LoneTransaction]:
        """All of them."""
        producers = {*run.alone, *(producer for each, producer in self._known if each is run)} - {NO_PRODUCER}
        found = (self.left_alone(run, each) for each in sorted(producers))
        return [transaction for transaction in found if transaction is not None]

    def _alone(self, run: LaneRun, producer_id: int) -> LoneTransaction:
        """The transaction for a producer as it was when the lane's place was found."""
        alone = LoneTransaction(
            transactional_id=self._name(run, str(producer_id)), producer_id=lone_producer_id(producer_id)
        )
        _place(alone, run.alone.get(alone.producer_id))
        return alone

    def _remember(self, key: tuple[LaneRun, int], transaction: Transaction | LoneTransaction) -> None:
        if len(self._known) >= KNOWN_MAX:
            ended = {
                known for known, each in self._known.items() if isinstance(each, LoneTransaction) and not each.is_open
            }
            for known in ended:
                del self._known[known]
            for run in {run for run, _ in ended}:
                # What the lane's look told of them is too old by now.
                run.alone = {producer: state for producer, state in run.alone.items() if (run, producer) not in ended}
                self._asks.add(run)
        self._known[key] = transaction

    def _name(self, run: LaneRun, purpose: str) -> str:
        return f"{OWN_PREFIX}{self._link}.{run.lane.key}.{purpose}"

    async def ask_whether_quiet(self, run: LaneRun) -> bool:
        """Whether no transaction is open in the lane's partition at the target, ours or another. A yes is remembered.

        :raises ClusterError: The target does not answer.
        """
        if run not in self._quiet:
            leader, connection = await self._routes.reach(*run.target)
            stables = await list_offsets(connection, {run.target: leader.epoch}, LATEST, isolation=READ_COMMITTED)
            stable = stables[run.target]
            if stable.error_code != codes.NONE:
                raise self._doubtful(run, f"its stable end: {codes.name_of(stable.error_code)}")
            if stable.offset < run.writer.position:
                return False
            self._quiet.add(run)
        return True

    async def find(self, run: LaneRun, source_producer_id: int, *, may_be_alone: bool) -> Transaction | LoneTransaction:
        """The transaction for aborted records of a producer of the source; open if an earlier owner left it so.

        While a coordinator ends it this waits.

        :raises ClusterError: The target does not answer, or the log has grown since it was looked at.
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
        """Make ready for records, or for an end without any.

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
        # Where brokers cannot tell, `initialize` aborts what was left, and the log's end shows it.
        with contextlib.suppress(UnsupportedByBroker):
            await transaction.find(run.target)
        if transaction.is_open:
            # Sequences begin anew with every epoch, also in a transaction that holds no record yet.
            state = await self._state(run, transaction.producer_id)
            transaction.sequence = _next(state) if state is not None and state.epoch == transaction.epoch else 0
            return transaction
        if source_producer_id == NO_PRODUCER:
            return transaction
        alone = self._alone(run, source_producer_id)
        _place(alone, await self._state(run, alone.producer_id))
        return alone if alone.is_open or (may_be_alone and await self.may_be_alone(run)) else transaction

    def _may_send_for(self, run: LaneRun) -> bool:
        return self._may_send() and not run.is_over

    async def _state(self, run: LaneRun, producer_id: int) -> ProducerState | None:
        _, connection = await self._routes.reach(*run.target)
        return (await producer_states(connection, [run.target], producer_id)).get(run.target)

    async def _check_end(self, run: LaneRun) -> None:
        """An earlier owner's transaction may have ended, or been aborted, since the log was looked at."""
        leader, connection = await self._routes.reach(*run.target)
        end = (await log_ends(connection, {run.target: leader.epoch}))[run.target]
        if end.error_code != codes.NONE or end.offset != run.writer.position:
            raise self._doubtful(run, f"{codes.name_of(end.error_code)} at {end.offset}")

    def _doubtful(self, run: LaneRun, what: str) -> Unreachable:
        return Unreachable(
            f"the end of {run.lane.key} has to be looked up again: {what}",
            cluster=self._routes.client.cluster.alias,
        )


def _key(run: LaneRun, producer_id: int) -> tuple[LaneRun, int]:
    """Under which the transaction for a producer of the source is known: what a link wrote there has its id already."""
    return run, lone_producer_id(producer_id)


def _place(alone: LoneTransaction, state: ProducerState | None) -> None:
    """Have it stand as a leader says. Its epoch is a later one where somebody has let go of a copy since."""
    alone.epoch, alone.sequence, alone.is_open = 0, 0, False
    if state is not None:
        alone.epoch, alone.sequence, alone.is_open = state.epoch, _next(state), state.transaction_start >= 0


def _next(state: ProducerState) -> int:
    return (state.last_sequence + 1) & SEQUENCE_MASK
