"""Requests of transactions at a cluster that clients came to: what is answered in its place to those that are none of
its own. Pure: bytes in, bytes out.

A cluster would say most of that itself, by the same codes. But clients give up for good where a position of theirs
belongs to a producer that is not known, and leaders that trust clients take what nobody ends.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from isthmus.gateway.cutting import framed, items_of
from isthmus.gateway.layout import Edit, MessageCursor, request_body
from isthmus.gateway.messages import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    END_TXN,
    TXN_OFFSET_COMMIT,
    is_flexible,
)
from isthmus.gateway.refusing import GROUPED, BodyWriter, NamedItem, NameVerdict, added, tell_added
from isthmus.model.carriedtransactions import CarriedTransaction, CarriedTransactions, WithinVerdict
from isthmus.wire import codes

ANNOUNCING: Final = frozenset({ADD_PARTITIONS_TO_TXN, ADD_OFFSETS_TO_TXN, TXN_OFFSET_COMMIT})
"""Requests that say what belongs to a transaction."""
TRANSACTING: Final = ANNOUNCING | {END_TXN}
_ABORTABLE_FROM: Final = 4
_PRODUCER_FROM: Final = 5
_SIZE_BYTES: Final = 4
_CODE: Final = struct.Struct(">h")
_PRODUCER: Final = struct.Struct(">qh")


class ProducerWithin(NamedTuple):
    """Whose transaction a request is about."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


def producer_within(key: int, body: MessageCursor) -> ProducerWithin:
    """Whose transaction a request of these that are `TRANSACTING` is about."""
    name = body.text() or ""
    if key == TXN_OFFSET_COMMIT:
        body.skip_text()
    return ProducerWithin(name, body.int64(), body.int16())


def told_within(key: int, version: int, frame: memoryview, verdict: WithinVerdict) -> bytes:
    """Our answer to a request in this frame, which is there as a whole, and is in doubt or of another cluster.

    :raises ValueError: It is no such request.
    """
    body = request_body(frame[_SIZE_BYTES:], flexible=is_flexible(key, version))
    out, code = BodyWriter(version, flexible=body.flexible), _code(key, version, verdict)
    if key == ADD_PARTITIONS_TO_TXN:
        body.skip_text()
        body.skip(10)
        items: Sequence[NamedItem] = items_of(body, body.count(), added)
        tell_added(out, [(each, code) for each in items])
    elif key == END_TXN:
        out.numbers("4xh", code).since(_PRODUCER_FROM, "qh", -1, -1).tags()
    else:
        GROUPED[key].write(out, body, NameVerdict(code, ""))
    return framed(frame, out)


def _code(key: int, version: int, verdict: WithinVerdict) -> int:
    if verdict is WithinVerdict.DOUBTED:
        return codes.COORDINATOR_LOAD_IN_PROGRESS
    if key == TXN_OFFSET_COMMIT:
        # Clients that know no code for "abort" abort by this one as well, and by no other that says what it is.
        return codes.TRANSACTION_ABORTABLE if version >= _ABORTABLE_FROM else codes.ILLEGAL_GENERATION
    return codes.INVALID_PRODUCER_ID_MAPPING


def committed_there(
    body: MessageCursor, version: int, transactions: CarriedTransactions, commit: CarriedTransaction
) -> list[Edit]:
    """What becomes other in the body of an answer to a commit: one that passed, as nobody tells here whose it is, may
    have been decided where its client came from. A coordinator that does not know its producer has nothing of it.
    """
    body.skip(4)
    at = body.at
    if body.int16() not in codes.PRODUCER_MOVED or not transactions.has_committed(commit):
        return []
    told = _PRODUCER.pack(*commit.producer) if version >= _PRODUCER_FROM else b""
    return [Edit(at, at + _CODE.size + len(told), _CODE.pack(codes.NONE) + told)]


def begun(body: MessageCursor, transactions: CarriedTransactions, transactional_id: str, asked_s: float) -> list[Edit]:
    """Nothing becomes other in the body of an answer to InitProducerId: it tells who has a transactional id here."""
    body.skip(4)
    if body.int16() == codes.NONE:
        transactions.learn(transactional_id, (body.int64(), body.int16()), asked_s)
    return []
