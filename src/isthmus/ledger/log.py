"""Follows the end of the ledger's log and appends to it, through changes of its leader and its loss."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from isthmus.errors import BrokerRefused, ClusterError, NotAuthorized, Unreachable
from isthmus.kafka import codes
from isthmus.kafka.batches.batch import HEADER_BYTES, Batch, stamp
from isthmus.kafka.client import Client
from isthmus.kafka.clock import lasting_s
from isthmus.kafka.connect.connection import Connection
from isthmus.kafka.log.fetch import PATIENCE_S, Fetched, Throttle, Want, fetch_or_pause, held_back
from isthmus.kafka.log.leader import ANSWER_S, LogLeader, LogPlace
from isthmus.kafka.log.listoffsets import EARLIEST, LATEST, READ_UNCOMMITTED, list_offsets
from isthmus.kafka.metadata import NO_TOPIC_ID
from isthmus.kafka.transactions.producers import allocate_producer
from isthmus.ledger.grouping import GroupedWrites
from isthmus.ledger.pending import OpenTransactions
from isthmus.ledger.records import Entry, LedgerChange, pack_changes, unpack_batches
from isthmus.ledger.topic import LEDGER, LEDGER_TOPIC, locate
from isthmus.ledger.topic import on_topic as with_topic

POLL_MS: Final = 500
RETRY_S: Final = 0.1
_FETCH_BYTES: Final = 8 << 20
_COMMIT_S: Final = 2.0
"""The longest time a commit takes to be in the log; a transaction that takes longer was most likely left open."""
_NO_PRODUCER: Final = -1
_EPOCH_MAX: Final = 0x7FFE


class ToShow:
    """Offsets that every look at the ledger with a client has to show at present, as they were written before."""

    def __init__(self, _: Client | None = None) -> None:
        self._offsets: list[int] = []

    @property
    def offset(self) -> int:
        """The largest of these offsets, -1 for none."""
        return max(self._offsets, default=-1)

    @contextmanager
    def at_least(self, offset: int) -> Iterator[None]:
        """Within the block, a look that does not reach beyond this offset fails."""
        self._offsets.append(offset)
        try:
            yield
        finally:
            self._offsets.remove(offset)

    def close(self) -> None:
        """Do nothing: companions of a client need this method."""


class LedgerLeader(LogLeader):
    """A connection of its own to the leader of the ledger."""

    def __init__(self, client: Client) -> None:
        super().__init__(client, LEDGER)
        self.name = "the ledger"

    async def _locate(self) -> LogPlace:
        return await locate(self.client)


class _Ordered:
    """An idempotent producer that uses a new epoch after each failed attempt: brokers refuse a request that was given
    up if it arrives behind later ones (KIP-360).
    """

    def __init__(self, leader: LedgerLeader) -> None:
        self._leader = leader
        self._producer_id = _NO_PRODUCER
        self._epoch = self._sequence = 0

    async def produce(self, batch: Batch) -> int:
        """Append one batch, as in `LogLeader`; one call at a time."""
        await self._leader.connect()
        if self._producer_id == _NO_PRODUCER or self._epoch > _EPOCH_MAX:
            await self._allocate_producer()
        header = stamp(batch, self._producer_id, self._epoch, self._sequence)
        try:
            base = await self._leader.produce(header, batch)
        except BrokerRefused as error:
            self._raise_epoch()
            if error.code != codes.OUT_OF_ORDER_SEQUENCE_NUMBER:
                raise
            # The leader has lost earlier records.
            raise Unreachable(str(error), cluster=error.cluster, hint=error.hint) from error
        except BaseException:
            self._raise_epoch()
            raise
        self._sequence += batch.record_count
        return base

    async def _allocate_producer(self) -> None:
        try:
            self._producer_id = await allocate_producer(self._leader.client)
        except NotAuthorized:
            # WRITE on any topic is enough to get one, so it is missing here too.
            self._leader.check(codes.TOPIC_AUTHORIZATION_FAILED, "WRITE")
            raise
        self._epoch = self._sequence = 0

    def _raise_epoch(self) -> None:
        self._epoch, self._sequence = self._epoch + 1, 0


class LedgerWriter:
    """Appends outside of transactions, for tasks and commands. A document written twice does no harm. With `in_order`
    changes are written in the order of the calls, waiting ones as one batch, and a failed request never arrives behind
    later ones, even if the leader was frozen.
    """

    def __init__(self, client: Client, *, in_order: bool = False) -> None:
        self._leader = leader = LedgerLeader(client)
        self._grouped = (
            GroupedWrites(_Ordered(leader).produce, close=leader.close, answer_s=ANSWER_S, retry_s=RETRY_S)
            if in_order
            else None
        )

    async def append(self, changes: Iterable[LedgerChange], *, term_s: float = 30.0) -> int:
        """Append with retries for `term_s`. Return the offset of the last change, -1 of none; durable then (acks=all).

        :raises ClusterError: The write was refused, or did not succeed in time.
        """
        wanted = tuple(changes)
        if not wanted:
            # Brokers refuse a batch without records.
            return -1
        if self._grouped is None:
            batch = pack_changes(wanted)
            header = bytes(batch.view[:HEADER_BYTES])
            return await self._leader.append(header, batch, term_s=term_s) + batch.record_count - 1
        try:
            return await self._grouped.append(wanted, term_s)
        except TimeoutError:
            raise self._leader.late_error(term_s) from None

    def renew(self, *, muted_s: float) -> None:
        """Use another connection from now on if a quota mutes this one for longer than `muted_s`."""
        if self._leader.muted_until - time.monotonic() > muted_s:
            self._leader.close()

    def close(self) -> None:
        """Close for good: a request on its way is taken back."""
        self._leader.end()


async def append_once(client: Client, changes: Iterable[LedgerChange], *, replication_factor: int | None) -> None:
    """Append with a writer of its own, for commands; create the ledger's topic if it is missing.

    :raises ClusterError: The topic cannot be created, or the changes were refused or not written in time.
    """
    found = tuple(changes)
    writer = LedgerWriter(client)
    try:
        await with_topic(client, lambda: writer.append(found), replication_factor=replication_factor)
    finally:
        writer.close()


GATHER_S: Final = 0.1
"""A follower of the ledger pauses for so long if all new records were about other links. Each record wakes every
follower, so many links in one ledger would keep one another busy.
"""


class Poll(NamedTuple):
    """The result of one look at the ledger.

    `asked_at` is the time (`lasting_s`) of the request: with `at_end` all records that were durable then and not seen
    before are among `entries`. `at_end` is set only if the leader showed the end of the log: an answer throttled by a
    quota is empty, whatever the log holds. `is_other_log` means that the ledger was lost and starts again with these
    entries: records read before are not in it. Documents of operators' wishes are among them once committed: see
    `OpenTransactions`.
    """

    entries: list[Entry]
    asked_at: float
    at_end: bool
    is_other_log: bool


class News(NamedTuple):
    """The records written since the last look; if it `is_other_log`, records read before are not in the ledger."""

    entries: list[Entry]
    is_other_log: bool


class _Epochs(NamedTuple):
    """The newest epoch in which a leader was read, and that of the last batch read, by which a leader shows whether its
    log has diverged from the records read (KIP-320).
    """

    led: int = -1
    read: int = -1


class LedgerTail:
    """Follows the ledger from `position` on. Uncommitted records are read too: a controller that stopped in the middle
    of a transaction must not delay readers, and its documents count by their generation alone. Only operators' wishes
    are returned once committed. If a quota has throttled every answer for `patience_s` (s), or kept a look from the
    end of the log for so long, the ledger counts as unreadable; the next look returns the records read so far.
    """

    def __init__(
        self,
        client: Client,
        *,
        position: int = 0,
        topic_id: uuid.UUID = NO_TOPIC_ID,
        poll_ms: int = POLL_MS,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self.position = position
        self.topic_id = topic_id
        self._poll_ms = poll_ms
        self._leader = LedgerLeader(client)
        self._shown = client.companion(ToShow)
        self._is_other_log = False
        self._transactions = OpenTransactions()
        self._held_until: dict[int, float] = {}
        self._patience_s = patience_s
        self._throttle = Throttle(_FETCH_BYTES, patience_s=patience_s)
        self._untold = News([], is_other_log=False)
        self._confirmed: Connection | None = None
        self._end = 0
        self._epochs = _Epochs()

    @property
    def node_id(self) -> int:
        """The last known leader of the ledger; -1 at first."""
        return self._leader.place.node_id

    def was_held(self, within_s: float) -> bool:
        """Whether a quota throttled an answer in the last `within_s` (s): new records may have been missed."""
        return time.monotonic() - self._throttle.held_at <= within_s

    @property
    def aborted(self) -> frozenset[str]:
        """The keys of documents that count although their transaction was aborted: brokers will drop these records."""
        return frozenset(self._transactions.aborted)

    def close(self) -> None:
        self._leader.end()

    def renew(self) -> None:
        """Close the connection: the next look finds the leader again."""
        self._leader.close()

    async def read_to_end(self) -> list[Entry]:
        """Read from `position` up to the present end of the log, or all of another log, however long it takes.

        :raises ClusterError: The ledger cannot be read.
        """
        return (await self.read_on(is_patient=True)).entries

    async def read_on(self, *, is_patient: bool = False) -> News:
        """Read records written since the last look, up to the present end of the log. Waits a moment for operators'
        wishes that are being committed: a transaction ends in the log after its writer got the answer.

        :raises ClusterError: The ledger cannot be read, or because of quotas not within `patience_s`, unless the caller
            `is_patient`; another call returns the records read so far.
        """
        before = self.position, self.topic_id, self._transactions.copy(), self._is_other_log, self._epochs
        untold = self._untold
        try:
            return await self._read_on(untold, is_patient=is_patient)
        except BaseException:
            if self._untold is untold:
                self.position, self.topic_id, self._transactions, self._is_other_log, self._epochs = before
            raise

    async def _read_on(self, untold: News, *, is_patient: bool) -> News:
        # Take this first: a look need not show offsets that are written after it began.
        begun, shown = time.monotonic(), self._shown.offset
        connection = await self._connect()
        end = await self._confirm(connection)
        if end < self.position:
            # What was read is not in it any more: it lost records in an unclean election, or is another one.
            await self._begin_again(connection)
        # Take the flag here, as `poll` is not called for an empty log.
        is_new_log, self._is_other_log = self._is_other_log, False
        entries, is_other_log = [] if is_new_log else [*untold.entries], is_new_log or untold.is_other_log
        while self.position < end or self._is_awaited:
            poll = await self.poll()
            if poll.is_other_log:
                is_other_log, entries = True, []
            entries += poll.entries
            if poll.at_end and not self._is_awaited:
                break
            held_s = time.monotonic() - begun
            if not is_patient and held_s > self._patience_s and self.was_held(held_s):
                self._untold = News(entries, is_other_log)
                raise held_back(f"the ledger, led by {connection.where},", connection.cluster)
        if min(end, self.position) <= shown:
            # The leader may have changed during the look.
            self._leader.close()
            raise _outdated_error(self._confirmed or connection)
        self._untold = News([], is_other_log=False)
        return News(entries, is_other_log)

    async def poll(self) -> Poll:
        """Wait for new records, at most `poll_ms`, or as long as a quota requires.

        :raises Unreachable: The ledger cannot be read now, or a quota has delayed it for too long; another call finds
            its leader again.
        :raises ClusterError: The ledger is gone, or reading is not allowed.
        """
        connection = await self._connect()
        try:
            if connection is not self._confirmed:
                await self._confirm(connection)
            asked_at = lasting_s()
            # While it leads in this epoch it knows how far its log is replicated.
            want = Want(self.topic_id, self.position, self._leader.place.leader_epoch, self._epochs.read)
            found = await fetch_or_pause(
                connection,
                {LEDGER: want},
                self._throttle,
                isolation=READ_UNCOMMITTED,
                max_wait_ms=self._poll_ms,
                timeout_s=ANSWER_S,
            )
            if found is None:
                return Poll([], asked_at, at_end=False, is_other_log=False)
            (fetched,) = found
            if fetched.error_code == codes.OFFSET_OUT_OF_RANGE or fetched.diverged_at >= 0:
                await self._begin_again(connection)
                return Poll([], asked_at, at_end=False, is_other_log=False)
            self._leader.check(fetched.error_code, "READ")
        except ClusterError:
            self._leader.close()
            raise
        return self._take(fetched, asked_at)

    def _take(self, fetched: Fetched[str], asked_at: float) -> Poll:
        entries: list[Entry] = []
        self._throttle.end()
        self._epochs = self._epochs._replace(led=max(self._epochs.led, self._leader.place.leader_epoch))
        for batch, found in unpack_batches(fetched.records):
            new = [entry for entry in found if entry.offset >= self.position]
            entries += self._transactions.take(batch, new)
            self.position = max(self.position, batch.offset_end)
            self._epochs = self._epochs._replace(read=batch.leader_epoch)
        held_until = lasting_s() + _COMMIT_S
        self._held_until = {each: self._held_until.get(each, held_until) for each in self._transactions.held}
        at_end = self.position >= max(fetched.high_watermark, self._end)
        is_other_log, self._is_other_log = self._is_other_log, False
        return Poll(entries, asked_at, at_end, is_other_log)

    @property
    def _is_awaited(self) -> bool:
        return lasting_s() < max(self._held_until.values(), default=0.0)

    async def _connect(self) -> Connection:
        connection = await self._leader.connect()
        topic_id = self._leader.place.topic_id
        if self.topic_id not in (NO_TOPIC_ID, topic_id):
            self._begin_at(0)
            self._is_other_log = True
        self.topic_id = topic_id
        return connection

    async def _confirm(self, connection: Connection) -> int:
        """Ask for the end of the log. Only a leader that knows how far its log is replicated answers: a new one does
        not know at first, and its Fetch answers show an end before acknowledged records (KIP-207).
        """
        epochs = {LEDGER: self._leader.place.leader_epoch}
        end = (await list_offsets(connection, epochs, LATEST, timeout_s=ANSWER_S))[LEDGER]
        self._leader.check(end.error_code, "DESCRIBE")
        self._confirmed, self._end = connection, end.offset
        return end.offset

    async def _begin_again(self, connection: Connection) -> None:
        """Start again at the log's beginning: the log was truncated, or deleted and created again.

        :raises Unreachable: The broker led before the one that was read last: its log is outdated, not another one.
        """
        # Without IDs of topics (Kafka before 2.8) it may be another one, whose epochs begin again.
        if self.topic_id != NO_TOPIC_ID and self._leader.place.leader_epoch < self._epochs.led:
            self._leader.close()
            raise _outdated_error(connection)
        start = (await list_offsets(connection, {LEDGER: -1}, EARLIEST, timeout_s=ANSWER_S))[LEDGER]
        self._leader.check(start.error_code, "DESCRIBE")
        self._begin_at(start.offset)
        self._is_other_log = True

    def _begin_at(self, position: int) -> None:
        self.position = position
        self._confirmed, self._end = None, 0
        self._epochs = _Epochs()
        self._transactions = OpenTransactions()
        self._held_until = {}


def _outdated_error(connection: Connection) -> Unreachable:
    return Unreachable(
        f"{connection.where} leads the ledger and does not show a record that was just written there",
        cluster=connection.cluster,
        hint=f"It may be cut off from its peers: check the brokers that hold topic {LEDGER_TOPIC}, and try again. If "
        "the cluster was restored from a copy, restart the processes that had read more.",
    )
