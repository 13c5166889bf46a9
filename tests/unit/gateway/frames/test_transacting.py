"""Requests of transactions at a cluster that clients came to: which of them reach it, and what the others are told."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.protocol.producer import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)

from isthmus.gateway.bounds import DEFAULTS
from isthmus.gateway.conversation import AnswerStream, Conversation, RequestStream
from isthmus.gateway.frames.serving import Serving
from isthmus.gateway.frames.walking import BatchWritten
from isthmus.kafka.connect.frames import encode_request
from isthmus.model.gateways.carriedtransactions import CarriedTransaction, CarriedTransactions
from tests.unit.gateway.batches import batch
from tests.unit.gateway.framing import HEARTBEAT, SIZES, framed, passed
from tests.unit.gateway.parts import Parts, answered, produce

OWN = CarriedTransaction("payments", 5, 1)
POSITIONS = {"paid": [0, 2], "sent": [1]}


def begun() -> tuple[CarriedTransactions, Conversation, RequestStream, AnswerStream]:
    """A conversation at a cluster that its producer came to."""
    known = CarriedTransactions([OWN], stay=1)
    return known, *Conversation.create(DEFAULTS, lambda *_: ("", 0), Serving(stay=1, transactions=known))


def adding_partitions(version: int) -> tuple[bytes, Any]:
    """An AddPartitionsToTxn, and what is answered to it by a code."""
    asked: Any = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
    told: Any = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult
    part: Any = told.AddPartitionsToTxnPartitionResult
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="payments",
        v3_and_below_producer_id=5,
        v3_and_below_producer_epoch=1,
        v3_and_below_topics=[asked(name=name, partitions=parts) for name, parts in POSITIONS.items()],
    )

    def answer(code: int) -> Any:
        topics = [
            told(
                name=name,
                results_by_partition=[part(partition_index=each, partition_error_code=code) for each in parts],
            )
            for name, parts in POSITIONS.items()
        ]
        return AddPartitionsToTxnResponse(throttle_time_ms=0, results_by_topic_v3_and_below=topics)

    return bytes(encode_request(request, version, 7, "client")), answer


def adding_offsets(version: int) -> tuple[bytes, Any]:
    """An AddOffsetsToTxn, and what is answered to it by a code."""
    request = AddOffsetsToTxnRequest(transactional_id="payments", producer_id=5, producer_epoch=1, group_id="readers")
    return bytes(encode_request(request, version, 7, "client")), lambda code: AddOffsetsToTxnResponse(
        throttle_time_ms=0, error_code=code
    )


def committing_offsets(version: int) -> tuple[bytes, Any]:
    """A TxnOffsetCommit, and what is answered to it by a code."""
    asked: Any = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
    told: Any = TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic
    topics = [
        asked(
            name=name,
            partitions=[
                asked.TxnOffsetCommitRequestPartition(
                    partition_index=each, committed_offset=7, committed_leader_epoch=2, committed_metadata="text"
                )
                for each in parts
            ],
        )
        for name, parts in POSITIONS.items()
    ]
    request = TxnOffsetCommitRequest(
        transactional_id="payments",
        group_id="readers",
        producer_id=5,
        producer_epoch=1,
        generation_id=3,
        member_id="member",
        group_instance_id=None,
        topics=topics,
    )

    def answer(code: int) -> Any:
        found = [
            told(
                name=name,
                partitions=[
                    told.TxnOffsetCommitResponsePartition(partition_index=each, error_code=code) for each in parts
                ],
            )
            for name, parts in POSITIONS.items()
        ]
        return TxnOffsetCommitResponse(throttle_time_ms=0, topics=found)

    return bytes(encode_request(request, version, 7, "client")), answer


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("making", "version", "is_flexible", "code"),
    [
        *((adding_partitions, version, version >= 3, 49) for version in range(4)),
        *((adding_offsets, version, version >= 3, 49) for version in range(5)),
        *((committing_offsets, version, version >= 3, 22 if version < 4 else 120) for version in range(6)),
    ],
)
def test_what_belongs_to_a_transaction_of_the_other_cluster(
    making: Any, version: int, is_flexible: bool, code: int, size: int
) -> None:
    """It is to come again until it is known that the transactional id has not begun here, then its client is told to
    abort, by a code that none takes for its end; once it has begun here it passes.
    """
    known, conversation, requests, answers = begun()
    frame, answer = making(version)

    def told(code: int) -> bool:
        assert passed(requests, frame + HEARTBEAT, size) == HEARTBEAT
        (first, *_), _ = conversation.expected, conversation.expected.pop()
        found = b"".join(map(bytes, answers.ready()))
        assert found == first.answer
        return found == framed(answer(code), version, flexible=is_flexible)

    assert told(14)
    assert known.doubted == {"payments"}
    known.learn("payments", (-1, -1), 1.0)
    conversation.now = 2.0
    assert told(code)
    known.learn("payments", (5, 2), 3.0)
    assert passed(requests, frame, size) == frame


@pytest.mark.parametrize("version", [3, 9, 12])
def test_records_of_a_transaction_of_the_other_cluster(version: int) -> None:
    """Leaders need not ask a coordinator: they do not get them."""
    known, conversation, requests, answers = begun()
    parts: Parts = [
        (BatchWritten("paid", index, 1, is_transactional=True), within(batch(0, producer=5))) for index in range(2)
    ]
    frame = produce(parts, version, within="payments")

    def told(code: int) -> bool:
        assert passed(requests, bytes(frame), 1000) == b""
        return b"".join(map(bytes, answers.ready())) == answered(parts, [code] * 2, version)

    assert told(6)
    known.learn("payments", (-1, -1), 1.0)
    conversation.now = 2.0
    assert told(49)
    known.learn("payments", (5, 2), 3.0)
    assert passed(requests, bytes(frame), 1000) == bytes(frame)
    plain = produce(parts, version)
    assert passed(requests, bytes(plain), 1000) == bytes(plain)


def test_nothing_passes_before_what_was_to_come_again() -> None:
    """A leader that does not know the producer takes whatever comes first; librdkafka takes what it would send again
    for acknowledged with what comes behind it, and commits without it.
    """
    known, conversation, requests, answers = begun()
    paid = BatchWritten("paid", 0, 1, is_transactional=True)

    def sent(sequence: int) -> bool:
        frame = bytes(produce([(paid, within(batch(sequence, producer=5)))], 9, within="payments"))
        passes = passed(requests, frame, 1000) == frame
        if not passes:
            assert b"".join(map(bytes, answers.ready())) == answered([(paid, b"")], [6], 9)
        return passes

    assert not sent(0)
    known.learn("payments", (5, 2), 1.0)
    # Both were under way before the first one was answered.
    assert [sent(1), sent(2)] == [False, False]
    assert [sent(0), sent(1), sent(2)] == [True, True, True]
    assert not conversation.again


def within(made: bytes) -> bytes:
    """A batch that says that it belongs to a transaction; its checksum counts for nothing here."""
    changed = bytearray(made)
    changed[22] |= 0x10
    return bytes(changed)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("version", range(7))
@pytest.mark.parametrize("code", [0, 51])
def test_who_begins_here_is_known_at_once(code: int, version: int, size: int) -> None:
    """The answer by which a producer begins passes as it is, and nobody is asked whose the transactional id is."""
    known, _, requests, answers = begun()
    request = InitProducerIdRequest(transactional_id="payments", transaction_timeout_ms=60_000)
    sent = bytes(encode_request(request, version, 7, "client"))
    told = InitProducerIdResponse(throttle_time_ms=0, error_code=code, producer_id=5, producer_epoch=0)
    answer = bytes(framed(told, version, flexible=version >= 2))

    assert passed(requests, sent, size) == sent
    pieces = (bytearray(answer[at : at + size]) for at in range(0, len(answer), size))
    assert b"".join(bytes(part) for piece in pieces for part in answers.take(memoryview(piece))) == answer
    frame, _ = adding_offsets(3)
    assert passed(requests, frame, size) == (b"" if code else frame)
    assert known.doubted == ({"payments"} if code else set())
