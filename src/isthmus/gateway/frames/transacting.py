"""Requests of transactions at a cluster that clients came to: our answers to those that are not of this cluster. Pure:
bytes in, bytes out.

A cluster would answer most of them itself, with the same codes. But clients fail for good if a position belongs to an
unknown producer, and leaders that trust clients append batches of transactions that are never ended.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from isthmus.gateway.frames.cutting import build_answer, items_of
from isthmus.gateway.frames.layout import Edit, MessageCursor, request_body
from isthmus.gateway.frames.messages import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    END_TXN,
    TXN_OFFSET_COMMIT,
    is_flexible,
)
from isthmus.gateway.frames.refusing import GROUPED, BodyWriter, NamedItem, NameVerdict, read_added_topic, tell_added
from isthmus.kafka import codes
from isthmus.model.gateways.carriedtransactions import CarriedTransaction, CarriedTransactions, WithinVerdict

ANNOUNCING: Final = frozenset({ADD_PARTITIONS_TO_TXN, ADD_OFFSETS_TO_TXN, TXN_OFFSET_COMMIT})
"""Requests that add partitions, groups or positions to a transaction."""
TRANSACTING: Final = ANNOUNCING | {END_TXN}
_ABORTABLE_FROM: Final = 4
_PRODUCER_FROM: Final = 5
_SIZE_BYTES: Final = 4
_CODE: Final = struct.Struct(">h")
_PRODUCER: Final = struct.Struct(">qh")


class ProducerWithin(NamedTuple):
    """The producer whose transaction a request is about."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


def producer_within(key: int, body: MessageCursor) -> ProducerWithin:
    """Read the producer from a request that is one of `TRANSACTING`."""
    name = body.text() or ""
    if key == TXN_OFFSET_COMMIT:
        body.skip_text()
    return ProducerWithin(name, body.int64(), body.int16())


def told_within(key: int, version: int, frame: memoryview, verdict: WithinVerdict) -> bytes:
    """Build our answer to the request in this frame, which is there as a whole, and is in doubt or of another cluster.

    :raises ValueError: It is no such request.
    """
    body = request_body(frame[_SIZE_BYTES:], flexible=is_flexible(key, version))
    out, code = BodyWriter(version, flexible=body.flexible), _code(key, version, verdict)
    if key == ADD_PARTITIONS_TO_TXN:
        body.skip_text()
        body.skip(10)
        items: Sequence[NamedItem] = items_of(body, body.count(), read_added_topic)
        tell_added(out, [(each, code) for each in items])
    elif key == END_TXN:
        out.numbers("4xh", code).since(_PRODUCER_FROM, "qh", -1, -1).tags()
    else:
        GROUPED[key].write(out, body, NameVerdict(code, ""))
    return build_answer(frame, out)


def _code(key: int, version: int, verdict: WithinVerdict) -> int:
    if verdict is WithinVerdict.DOUBTED:
        return codes.COORDINATOR_LOAD_IN_PROGRESS
    if key == TXN_OFFSET_COMMIT:
        # Clients without TRANSACTION_ABORTABLE abort for this code as well, and for no other fitting one.
        return codes.TRANSACTION_ABORTABLE if version >= _ABORTABLE_FROM else codes.ILLEGAL_GENERATION
    return codes.INVALID_PRODUCER_ID_MAPPING


def committed_there(
    body: MessageCursor, version: int, transactions: CarriedTransactions, commit: CarriedTransaction
) -> list[Edit]:
    """Return the edits of the body of an answer to a commit: a commit of an unknown producer may have been decided at
    the cluster that its client came from. A coordinator that does not know the producer has nothing of it.
    """
    body.skip(4)
    at = body.at
    if body.int16() not in codes.PRODUCER_MOVED or not transactions.has_committed(commit):
        return []
    producer = _PRODUCER.pack(*commit.producer) if version >= _PRODUCER_FROM else b""
    return [Edit(at, at + _CODE.size + len(producer), _CODE.pack(codes.NONE) + producer)]


def learn_owner(
    body: MessageCursor, transactions: CarriedTransactions, transactional_id: str, asked_s: float
) -> list[Edit]:
    """Learn from an answer to InitProducerId who has a transactional id at this cluster; return no edits."""
    body.skip(4)
    if body.int16() == codes.NONE:
        transactions.learn(transactional_id, (body.int64(), body.int16()), asked_s)
    return []
