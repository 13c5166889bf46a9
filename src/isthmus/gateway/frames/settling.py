"""Producers that came from another cluster, in a Produce request that is there as a whole.

The cluster may know the producer id of a client from an earlier stay: then the id in its batches is replaced, and their
checksums are updated.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Final

from isthmus.gateway.frames.acknowledging import Acknowledged
from isthmus.gateway.frames.serving import Serving
from isthmus.gateway.frames.walking import BatchWritten, ProduceWalk
from isthmus.kafka import codes
from isthmus.kafka.batches import checksum
from isthmus.kafka.log.listoffsets import PartitionKey
from isthmus.model.gateways.carriedproducers import CarriedVerdict, SentBatch
from isthmus.model.gateways.carriedtransactions import CarriedTransactions, WithinVerdict
from isthmus.model.gateways.producerids import settled_producer_id

_ID: Final = struct.Struct(">q")
_LENGTH: Final = struct.Struct(">i")
_CRC: Final = struct.Struct(">I")
_LENGTH_AT: Final = 8
_LENGTH_COUNTS_FROM: Final = 12
_CRC_AT: Final = 17
_ID_AT: Final = 43
_PASSES: Final = {CarriedVerdict.NEW, CarriedVerdict.NEXT}
_CODES: Final = {
    CarriedVerdict.DUPLICATE: codes.DUPLICATE_SEQUENCE_NUMBER,
    CarriedVerdict.GAP: codes.OUT_OF_ORDER_SEQUENCE_NUMBER,
    CarriedVerdict.FENCED: codes.INVALID_PRODUCER_EPOCH,
}
"""The codes of answers by verdict; all other partitions get a retriable code."""


def settle_request(walk: ProduceWalk, frame: memoryview, serving: Serving, now: float) -> Mapping[PartitionKey, int]:
    """Return the error codes of partitions if a request must not pass; empty if it passes, with producer ids replaced
    where that is necessary. `now` is the time (monotonic s).
    """
    if refusals := _judge_within(walk, serving.transactions, now):
        return refusals
    sent = [each for each in walk.written if each.producer_id >= 0 and not each.is_transactional]
    verdicts = serving.carried.judge(map(_to_sent_batch, sent), walk, now) if serving.carried else {}
    if not _PASSES.issuperset(verdicts.values()):
        return {key: _CODES.get(verdict, codes.NOT_LEADER_OR_FOLLOWER) for key, verdict in verdicts.items()}
    for each in sent:
        other = settled_producer_id(each.producer_id, serving.stay)
        if other != each.producer_id:
            _rewrite(frame, each.batch_at, other)
    return {}


def _judge_within(walk: ProduceWalk, transactions: CarriedTransactions, now: float) -> Mapping[PartitionKey, int]:
    """As `settle_request`, for batches of transactions."""
    name = walk.transactional_id
    if name is None or not transactions:
        return {}
    verdicts = {
        (each.topic, each.partition): transactions.judge(name, each.producer_id, now)
        for each in walk.written
        if each.is_transactional
    }
    if all(verdict is WithinVerdict.HERE for verdict in verdicts.values()):
        return {}
    by_verdict = {WithinVerdict.ELSEWHERE: codes.INVALID_PRODUCER_ID_MAPPING}
    return {key: by_verdict.get(verdict, codes.NOT_LEADER_OR_FOLLOWER) for key, verdict in verdicts.items()}


def find_appended(acknowledgements: Iterable[Acknowledged]) -> list[PartitionKey]:
    """Return the partitions whose batches were appended, by an answer."""
    return [each.key for each in acknowledgements if each.code in (codes.NONE, codes.DUPLICATE_SEQUENCE_NUMBER)]


def _to_sent_batch(written: BatchWritten) -> SentBatch:
    return SentBatch(
        written.topic,
        written.partition,
        written.producer_id,
        written.producer_epoch,
        written.base_sequence,
        written.records,
    )


def _rewrite(frame: memoryview, batch_at: int, producer_id: int) -> None:
    """Replace the producer id of the batch that begins there. A checksum that was wrong stays wrong."""
    (length,) = _LENGTH.unpack_from(frame, batch_at + _LENGTH_AT)
    at, end = batch_at + _ID_AT, batch_at + _LENGTH_COUNTS_FROM + length
    before, after = bytes(frame[at : at + _ID.size]), _ID.pack(producer_id)
    (crc,) = _CRC.unpack_from(frame, batch_at + _CRC_AT)
    frame[at : at + _ID.size] = after
    _CRC.pack_into(frame, batch_at + _CRC_AT, checksum.update_crc(crc, before, after, max(end - at - _ID.size, 0)))
