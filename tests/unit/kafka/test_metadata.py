"""Answers to Metadata are decoded once for the same bytes."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from isthmus.kafka.metadata import Metadata, RecentAnswers, read_metadata

VERSION = 12
TOPIC = MetadataResponse.MetadataResponseTopic
PARTITION = TOPIC.MetadataResponsePartition


def told(cluster_id: str, *, throttle_ms: int = 0) -> bytes:
    """An answer about one topic of one partition, as a broker encodes it, without its header."""
    partition = PARTITION(
        error_code=0, partition_index=0, leader_id=1, leader_epoch=3, replica_nodes=[1], isr_nodes=[1]
    )
    topic = TOPIC(error_code=0, name="orders", topic_id=uuid.UUID(int=7), is_internal=False, partitions=[partition])
    answer = MetadataResponse(
        throttle_time_ms=throttle_ms, brokers=[], cluster_id=cluster_id, controller_id=1, topics=[topic]
    )
    return bytes(answer.encode(version=VERSION))


def framed(body: bytes, correlation: int) -> memoryview:
    """The payload of a frame with a flexible header."""
    return memoryview(correlation.to_bytes(4, "big") + b"\0" + body)


def read(body: bytes, correlation: int = 1) -> Any:
    request = MetadataRequest(topics=None)
    request.API_VERSION = VERSION
    request.with_header(correlation_id=correlation, client_id="test")
    return read_metadata(request, VERSION, framed(body, correlation), correlation)


def test_the_same_bytes_are_one_answer() -> None:
    """Whoever asked gets the same value, under any correlation id; other bytes are another one."""
    first = read(told("test-1"), 1)
    assert first.metadata.topics["orders"].partitions[0].leader_epoch == 3
    assert read(told("test-1"), 2) is first
    other = read(told("test-2", throttle_ms=40))
    assert (other.metadata.cluster_id, other.throttle_time_ms) == ("test-2", 40)


def test_an_answer_out_of_step_is_refused_although_it_is_known() -> None:
    """The stream cannot be read any more, whatever its bytes are."""
    body = told("test-3")
    read(body)
    request = MetadataRequest(topics=None)
    with pytest.raises(ConnectionError, match="answered request 6 where 5 was next"):
        read_metadata(request, VERSION, framed(body, 6), 5)


def test_old_answers_are_forgotten() -> None:
    """All that is kept is no larger than it may be, and what was asked for last stays, however large it is."""
    decoded: list[bytes] = []
    answers = RecentAnswers(10)

    def ask(body: bytes, version: int = VERSION) -> Metadata:
        def decode() -> Any:
            decoded.append(body)
            return MetadataResponse(brokers=[], cluster_id=body.decode(), controller_id=1, topics=[])

        return answers.read(version, body, decode).metadata

    for body in (b"aaaa", b"bbbb", b"aaaa", b"cccc", b"aaaa", b"bbbb", b"bbbb"):
        assert ask(body).cluster_id == body.decode()
    assert decoded == [b"aaaa", b"bbbb", b"cccc", b"bbbb"]
    ask(b"bbbb", VERSION - 1)
    ask(large := b"d" * 20)
    ask(large)
    assert decoded[4:] == [b"bbbb", large]
    ask(b"bbbb")
    assert decoded[6:] == [b"bbbb"]


def test_what_two_threads_decode_at_once_is_kept_once() -> None:
    """It takes its own room only, and pushes out nothing else."""
    answers = RecentAnswers(10)
    decoded: list[int] = []

    def decode() -> Any:
        decoded.append(len(decoded))
        return MetadataResponse(brokers=[], cluster_id="c", controller_id=1, topics=[])

    def meanwhile() -> Any:
        answers.read(VERSION, b"aaaa", decode)
        return decode()

    answers.read(VERSION, b"aaaa", meanwhile)
    for body in (b"bbbb", b"aaaa"):
        answers.read(VERSION, body, decode)
    assert len(decoded) == 3
