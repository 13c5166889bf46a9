"""Commits through a gateway: what is read of them, that a commit stops what is behind it, and what is answered."""

from __future__ import annotations

from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.consumer import OffsetCommitRequest, OffsetCommitResponse
from kafka.protocol.producer import EndTxnRequest, EndTxnResponse, InitProducerIdRequest, TxnOffsetCommitRequest

from isthmus.gateway.bounds import DEFAULTS
from isthmus.gateway.conversation import Conversation, RequestStream
from isthmus.gateway.frames.acknowledging import fail
from isthmus.gateway.frames.committing import (
    CommitAsked,
    CommitOwed,
    GroupSeen,
    PositionsOwed,
    code_of_commit,
    commit_refused,
    positions_told,
)
from isthmus.gateway.frames.duties import NO_DUTIES, Duties
from isthmus.gateway.frames.serving import Serving
from isthmus.kafka.connect.frames import encode_request
from isthmus.model.gateways.carriedtransactions import CarriedTransaction, CarriedTransactions
from tests.unit.gateway.framing import HEARTBEAT, SIZES, framed, passed


class Owing:
    """A gateway with a synchronous link."""

    links = ("orders",)


def begun() -> tuple[Conversation, RequestStream]:
    """A conversation through it."""
    conversation, requests, _ = Conversation.create(DEFAULTS, lambda *_: ("", 0), duties=cast(Duties, Owing()))
    return conversation, requests


def ending(version: int, *, is_commit: bool) -> bytes:
    """The frame of an EndTxn."""
    request = EndTxnRequest(transactional_id="payments", producer_id=5, producer_epoch=1, committed=is_commit)
    return bytes(encode_request(request, version, 7, "client"))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("version", range(6))
def test_a_commit_is_looked_at_before_it_passes(version: int, size: int) -> None:
    """It and all behind it wait, however they are cut, until it is known what the commit is to wait for."""
    conversation, requests = begun()
    commit = ending(version, is_commit=True)

    assert passed(requests, HEARTBEAT + commit + HEARTBEAT, size) == HEARTBEAT
    asked = conversation.asked
    assert asked == CommitAsked("payments", version, 7, 0.0, producer_id=5)
    owed = CommitOwed(asked)
    requests.decide(asked, owed)
    assert passed(requests, b"", 1) == b""
    assert b"".join(map(bytes, requests.take(memoryview(b"")))) == commit + HEARTBEAT

    assert conversation.asked is None
    assert [each.owed for each in conversation.expected] == [None, owed, None]


@pytest.mark.parametrize("version", range(6))
def test_a_commit_that_is_refused(version: int) -> None:
    """It is answered by us, in its turn, by the code that its version knows, and the next one is looked at again."""
    conversation, requests = begun()
    commit = ending(version, is_commit=True)
    passed(requests, commit + HEARTBEAT + commit, 9)
    assert conversation.asked is not None

    requests.decide(conversation.asked, commit_refused(conversation.asked))

    assert b"".join(map(bytes, requests.take(memoryview(b"")))) == HEARTBEAT
    assert conversation.asked is not None
    code = 120 if version >= 4 else 49
    answer = EndTxnResponse(throttle_time_ms=0, error_code=code, producer_id=-1, producer_epoch=-1)
    frame = framed(answer, version, flexible=version >= 3)
    assert conversation.expected[0].answer == frame
    assert code_of_commit(memoryview(frame), version) == code


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("version", range(6))
@pytest.mark.parametrize("is_holding", [False, True])
def test_a_commit_that_another_cluster_has_decided(version: int, size: int, is_holding: bool) -> None:
    """It is to be asked for again until it is known that this cluster has not heard of the producer, then it is
    answered; one that goes on here by the same id commits here. There is nothing here to abort.
    """
    own = CarriedTransaction("payments", 5, 2 if version >= 5 else 1, is_committed=True)
    known = CarriedTransactions([own], stay=1)
    duties = cast(Duties, Owing()) if is_holding else NO_DUTIES
    conversation, requests, _ = Conversation.create(DEFAULTS, lambda *_: ("", 0), Serving(transactions=known), duties)
    commit = ending(version, is_commit=True)

    def answered(code: int, producer_id: int, epoch: int, ending: bytes = commit) -> bool:
        assert passed(requests, ending + HEARTBEAT, size) == HEARTBEAT
        answer = EndTxnResponse(throttle_time_ms=0, error_code=code, producer_id=producer_id, producer_epoch=epoch)
        frame = conversation.expected[-2].answer
        assert conversation.asked is None
        return frame == framed(answer, version, flexible=version >= 3)

    assert answered(14, -1, -1)
    assert known.doubted == {"payments"}
    assert answered(14, -1, -1)
    known.learn("payments", (-1, -1), 1.0)
    conversation.now = 2.0
    assert answered(0, 5, own.producer_epoch)
    assert answered(49, -1, -1, ending(version, is_commit=False))
    conversation.now = 20.0
    assert answered(14, -1, -1)
    known.learn("payments", (5, 0), 20.0)
    assert passed(requests, commit, size) == (b"" if is_holding else commit)
    assert (conversation.asked is not None) is is_holding


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("version", range(7))
@pytest.mark.parametrize("epoch", [1, 0])
@pytest.mark.parametrize("is_back", [True, False])
def test_a_producer_that_came_along_asks_as_the_one_that_was_here(
    version: int, size: int, epoch: int, is_back: bool
) -> None:
    """The id of the other cluster would have it fenced for good where it has been before. One that was fenced there
    already is fenced here, and so is one whose place another has taken here, at the epoch that comes then.
    """
    own, here = CarriedTransaction("payments", 5, 1), CarriedTransaction("payments", 9, 4)
    serving = Serving(transactions=CarriedTransactions([own], [here] if is_back else [], stay=1))
    _, requests, _ = Conversation.create(DEFAULTS, lambda *_: ("", 0), serving)

    def asking(producer_id: int, producer_epoch: int) -> bytearray:
        request = InitProducerIdRequest(
            transactional_id="payments",
            transaction_timeout_ms=60_000,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
        )
        return bytearray(encode_request(request, version, 7, "client"))

    is_known = version >= 3 and epoch == 1 and is_back
    expected = asking(9, 4) if is_known else asking(5, epoch)
    frame, found = asking(5, epoch), b""
    for at in range(0, len(frame), size):
        found += b"".join(map(bytes, requests.take(memoryview(frame[at : at + size]))))
    assert found == expected


@pytest.mark.parametrize("version", range(6))
def test_an_abort_passes(version: int) -> None:
    """An abort waits for nothing."""
    conversation, requests = begun()

    assert passed(requests, ending(version, is_commit=False), 3) == ending(version, is_commit=False)
    assert [each.owed for each in conversation.expected] == [None]


@given(st.integers(2, 9), st.sampled_from(SIZES), st.dictionaries(st.sampled_from("abc"), st.sets(st.integers(0, 9))))
def test_positions_are_read(version: int, size: int, positions: dict[str, set[int]]) -> None:
    """The group and the partitions of a commit are known, and which of them an answer says are committed."""
    conversation, requests = begun()
    topic = OffsetCommitRequest.OffsetCommitRequestTopic
    partition = topic.OffsetCommitRequestPartition
    request = OffsetCommitRequest(
        group_id="readers",
        generation_id_or_member_epoch=3,
        member_id="member",
        group_instance_id=None,
        retention_time_ms=-1,
        topics=[
            topic(
                name=name,
                partitions=[
                    partition(
                        partition_index=each, committed_offset=7, committed_leader_epoch=2, committed_metadata="text"
                    )
                    for each in sorted(partitions)
                ],
            )
            for name, partitions in positions.items()
        ],
    )
    sent = bytes(encode_request(request, version, 7, "client"))

    assert passed(requests, sent, size) == sent
    keys = [(name, each) for name, partitions in positions.items() for each in sorted(partitions)]
    assert [each.owed for each in conversation.expected] == [PositionsOwed("readers", frozenset(keys))]

    frame = _committed(positions, version, 0)
    told = positions_told(memoryview(frame), version)
    assert [(each.key, each.code) for each in told] == [(key, 0) for key in keys]
    for each in told:
        fail(frame, each.code_at, 14)
    assert frame == _committed(positions, version, 14)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("request_class", "version"),
    [(OffsetCommitRequest, version) for version in range(2, 10)]
    + [(TxnOffsetCommitRequest, version) for version in range(6)],
)
def test_epochs_of_the_other_cluster_are_forgotten(request_class: Any, version: int, size: int) -> None:
    """A position up to where both clusters are the same is committed without the leader epoch it was read under, and
    all others as they are.
    """
    serving = Serving(common={("a", 0): 7, ("a", 1): 7})
    _, requests, _ = Conversation.create(DEFAULTS, lambda *_: ("", 0), serving)
    topic = getattr(request_class, f"{request_class.__name__}Topic")
    partition = getattr(topic, f"{request_class.__name__}Partition")

    def asking(*epochs: int) -> bytearray:
        offsets = [("a", 0, 7), ("a", 1, 8), ("a", 2, 7), ("b", 0, 7)]
        parts = [
            partition(partition_index=index, committed_offset=at, committed_leader_epoch=epoch, committed_metadata="m")
            for (_, index, at), epoch in zip(offsets, epochs, strict=True)
        ]
        others = {"transactional_id": "t", "producer_id": 3, "producer_epoch": 4}
        request = request_class(
            group_id="readers",
            member_id="member",
            group_instance_id="one",
            topics=[topic(name="a", partitions=parts[:3]), topic(name="b", partitions=parts[3:])],
            **(others if request_class is TxnOffsetCommitRequest else {"retention_time_ms": -1}),
        )
        return bytearray(encode_request(request, version, 7, "client"))

    frame, found = asking(5, 5, 5, 5), b""
    for at in range(0, len(frame), size):
        found += b"".join(map(bytes, requests.take(memoryview(frame[at : at + size]))))
    assert found == asking(-1, 5, 5, 5)


def _committed(positions: dict[str, set[int]], version: int, code: int) -> bytearray:
    topic = OffsetCommitResponse.OffsetCommitResponseTopic
    answer = OffsetCommitResponse(
        throttle_time_ms=0,
        topics=[
            topic(
                name=name,
                partitions=[
                    topic.OffsetCommitResponsePartition(partition_index=each, error_code=code)
                    for each in sorted(partitions)
                ],
            )
            for name, partitions in positions.items()
        ],
    )
    return framed(answer, version, flexible=version >= 8)


@pytest.mark.parametrize("version", range(6))
def test_groups_of_a_transaction_are_read(version: int) -> None:
    """Whose positions a transaction commits is known."""
    conversation, requests = begun()
    request = TxnOffsetCommitRequest(
        transactional_id="payments",
        group_id="readers",
        producer_id=1,
        producer_epoch=2,
        generation_id=3,
        member_id="member",
        group_instance_id=None,
        topics=[],
    )
    sent = bytes(encode_request(request, version, 7, "client"))

    assert passed(requests, sent, 4) == sent
    assert [each.owed for each in conversation.expected] == [GroupSeen("payments", "readers")]
