"""Commits of transactions and of groups: what of them is read, and what is answered in their place. Pure."""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from isthmus.gateway.duties import SyncLink
from isthmus.gateway.layout import MessageCursor, response_body
from isthmus.gateway.messages import END_TXN, OFFSET_COMMIT, is_flexible
from isthmus.model.carriedtransactions import CarriedTransaction
from isthmus.wire import codes
from isthmus.wire.offsets import PartitionKey

_SIZE: Final = struct.Struct(">i")
_REFUSAL: Final = struct.Struct(">ih")
_PRODUCER: Final = struct.Struct(">qh")
_ABORTABLE_FROM: Final = 4
_PRODUCER_FROM: Final = 5


class CommitAsked(NamedTuple):
    """Somebody asks a coordinator to commit a transaction. `begun_at` (monotonic s) is when, and `node` the broker that
    it goes to, -1 where that is not known, as is the producer that asks: its coordinator may know it by another id once
    its epochs are at an end.
    """

    transactional_id: str
    version: int
    correlation: int
    begun_at: float
    node: int = -1
    producer_id: int = -1


class Span(NamedTuple):
    """The offsets `[begin, end)` of a partition of the source."""

    begin: int
    end: int


class TransactionSeen(NamedTuple):
    """Which transaction of a producer a coordinator has. Those of a client that speaks EndTxn below version 5 have the
    same epoch, one after the other, and differ in when they began (`started_ms`).
    """

    producer_id: int = -1
    producer_epoch: int = -1
    started_ms: int = -1
    is_open: bool = False

    def is_decided_by(self, told: TransactionSeen) -> bool:
        """Whether a coordinator that tells this of a transaction that is decided knows of that. One that was cut off
        before calls it open still, or tells of an earlier one of the producer.
        """
        if told.producer_id != self.producer_id:
            return True
        now, then = (told.producer_epoch, told.started_ms), (self.producer_epoch, self.started_ms)
        return now > then or (now == then and not told.is_open)


@dataclass(frozen=True, slots=True)
class CommitOwed:
    """What a commit waits for: the end of its transaction in partitions of the source, or with `is_all` in any, as the
    coordinator does not tell any more what was in it; and positions of groups. All its records of a partition are in
    `spans`, and `seen` is the transaction as it was looked at, `None` where that was not told. What was failed over of
    links is `untouched` where nothing of the transaction is in that.
    """

    asked: CommitAsked
    spans: Mapping[PartitionKey, Span] = field(default_factory=dict)
    groups: frozenset[str] = frozenset()
    is_all: bool = False
    seen: TransactionSeen | None = None
    untouched: Collection[SyncLink] = ()

    @property
    def producer_id(self) -> int:
        """Whose transaction it is, -1 where that is not known."""
        return -1 if self.seen is None else self.seen.producer_id


class TransactionEnd(NamedTuple):
    """A client ends the transaction of a producer, by a commit or not."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_commit: bool

    def committed(self, version: int) -> CarriedTransaction:
        """What its coordinator knows of the producer once it is committed, asked for in this version of EndTxn."""
        epoch = self.producer_epoch + (version >= _PRODUCER_FROM)
        return CarriedTransaction(self.transactional_id, self.producer_id, epoch, is_committed=True)


class PositionsOwed(NamedTuple):
    """The positions that somebody commits."""

    group: str
    keys: frozenset[PartitionKey]


class GroupSeen(NamedTuple):
    """A group whose positions are to be committed by a transaction."""

    transactional_id: str
    group: str


class PositionSent(NamedTuple):
    """A position that is to be committed, and where in the payload the leader epoch stands that it was read under, if
    it does.
    """

    key: PartitionKey
    offset: int
    epoch_at: int | None


class PositionTold(NamedTuple):
    """What an answer says of a position, and where in its frame."""

    key: PartitionKey
    code: int
    code_at: int


def transaction_ended(body: MessageCursor) -> TransactionEnd:
    """What an EndTxn ends."""
    return TransactionEnd(body.text() or "", body.int64(), body.int16(), body.int8() != 0)


def positions_committed(body: MessageCursor, version: int) -> tuple[PositionsOwed, list[PositionSent]]:
    """What an OffsetCommit is about."""
    group = body.text() or ""
    if version >= 1:
        body.skip(4)
        body.skip_text()
    if version >= 7:
        body.skip_text()
    if 2 <= version <= 4:
        body.skip(8)
    sent = list(_positions_sent(body, has_epochs=version >= 6, has_times=version == 1))
    return PositionsOwed(group, frozenset(each.key for each in sent)), sent


def group_seen(body: MessageCursor) -> GroupSeen:
    """Whose positions a TxnOffsetCommit is about."""
    return GroupSeen(body.text() or "", body.text() or "")


def positions_within(body: MessageCursor, version: int) -> tuple[GroupSeen, list[PositionSent]]:
    """What a TxnOffsetCommit is about."""
    seen = group_seen(body)
    body.skip(10)
    if version >= 3:
        body.skip(4)
        body.skip_text()
        body.skip_text()
    return seen, list(_positions_sent(body, has_epochs=version >= 2, has_times=False))


def _positions_sent(body: MessageCursor, *, has_epochs: bool, has_times: bool) -> Iterator[PositionSent]:
    for _ in range(body.count()):
        topic = body.text() or ""
        for _ in range(body.count()):
            partition, offset, epoch_at = body.int32(), body.int64(), body.at
            body.skip(4 * has_epochs + 8 * has_times)
            yield PositionSent((topic, partition), offset, epoch_at if has_epochs else None)
            body.skip_text()
            body.skip_tags()
        body.skip_tags()


def commit_refused(asked: CommitAsked, code: int | None = None) -> bytes:
    """The answer to a commit that is not forwarded. By default it says that the transaction can only be aborted: in
    versions that have no code for that by INVALID_PRODUCER_ID_MAPPING, which clients abort for as well. A code that has
    them ask again would only hold them until the coordinator aborts, and fences them.
    """
    if code is None:
        is_known = asked.version >= _ABORTABLE_FROM
        code = codes.TRANSACTION_ABORTABLE if is_known else codes.INVALID_PRODUCER_ID_MAPPING
    return _commit_answered(asked, code, -1, -1)


def commit_told(asked: CommitAsked, commit: CarriedTransaction) -> bytes:
    """The answer to a commit that another cluster has decided: the producer goes on at the epoch it has by that."""
    return _commit_answered(asked, codes.NONE, commit.producer_id, commit.producer_epoch)


def _commit_answered(asked: CommitAsked, code: int, producer_id: int, epoch: int) -> bytes:
    tags = b"\0" if is_flexible(END_TXN, asked.version) else b""
    payload = _SIZE.pack(asked.correlation) + tags + _REFUSAL.pack(0, code)
    if asked.version >= _PRODUCER_FROM:
        payload += _PRODUCER.pack(producer_id, epoch)
    payload += tags
    return _SIZE.pack(len(payload)) + payload


def code_of_commit(frame: memoryview, version: int) -> int:
    """What the answer to an EndTxn says."""
    flexible = is_flexible(END_TXN, version)
    body = response_body(frame[_SIZE.size :], flexible=flexible, has_tags=flexible)
    body.skip(4)
    return body.int16()


def positions_told(frame: memoryview, version: int) -> list[PositionTold]:
    """What the answer to an OffsetCommit says."""
    flexible = is_flexible(OFFSET_COMMIT, version)
    body = response_body(frame[_SIZE.size :], flexible=flexible, has_tags=flexible)
    if version >= 3:
        body.skip(4)
    found = []
    for _ in range(body.count()):
        topic = body.text() or ""
        for _ in range(body.count()):
            partition, code_at = body.int32(), _SIZE.size + body.at
            found.append(PositionTold((topic, partition), body.int16(), code_at))
            body.skip_tags()
        body.skip_tags()
    return found
