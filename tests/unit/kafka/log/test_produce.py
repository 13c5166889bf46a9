"""Produce requests encoded without copies are the bytes kafka-python would send."""

from __future__ import annotations

import uuid
from itertools import groupby
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.protocol.producer import ProduceRequest, ProduceResponse

from isthmus.kafka.connect.frames import encode_request
from isthmus.kafka.log.produce import VERSION_MAX, VERSION_MIN, Append, answer_key, decode, encode, version_for

VERSIONS = range(VERSION_MIN, VERSION_MAX + 1)
IDS = {name: uuid.uuid5(uuid.NAMESPACE_DNS, name) for name in ("a", "b.c", "топик", "t" * 249)}


@st.composite
def appends(draw: st.DrawFn) -> list[Append]:
    """Appends to a few topics, those to one topic standing together, each to a partition of its own."""
    found = []
    for name in draw(st.lists(st.sampled_from(sorted(IDS)), min_size=1, max_size=3, unique=True)):
        for partition in draw(st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=3, unique=True)):
            header, records = draw(st.binary(max_size=61)), draw(st.binary(max_size=20_000))
            found.append(Append(name, IDS[name], partition, header, memoryview(records)))
    return found


def theirs(appends: list[Append], version: int, correlation: int, client_id: str, **fields: Any) -> bytes:
    """The frame as kafka-python encodes it."""
    topic_class = ProduceRequest.TopicProduceData
    topics = [
        topic_class(
            name=name,
            topic_id=IDS[name],
            partition_data=[
                topic_class.PartitionProduceData(index=a.partition, records=a.header + bytes(a.records)) for a in group
            ],
        )
        for name, group in groupby(appends, lambda append: append.topic)
    ]
    return encode_request(ProduceRequest(acks=-1, topic_data=topics, **fields), version, correlation, client_id)


@pytest.mark.parametrize("version", VERSIONS)
@settings(max_examples=30)
@given(
    appends=appends(),
    correlation=st.integers(0, 2**31 - 1),
    client_id=st.text(max_size=20),
    timeout_ms=st.integers(0, 2**31 - 1),
    transactional_id=st.none() | st.text(max_size=20),
)
def test_encoded_as_kafka_python_does(
    version: int, appends: list[Append], correlation: int, client_id: str, timeout_ms: int, transactional_id: str | None
) -> None:
    """Every version gives the same frame, byte for byte."""
    frame = encode(
        appends,
        version=version,
        correlation=correlation,
        client_id=client_id,
        timeout_ms=timeout_ms,
        transactional_id=transactional_id,
    )
    sent = b"".join(frame.buffers)
    assert frame.size_bytes == len(sent)
    assert sent == theirs(
        appends, version, correlation, client_id, timeout_ms=timeout_ms, transactional_id=transactional_id
    )


def test_records_are_not_copied() -> None:
    """The views that were given are the views that are sent."""
    records = memoryview(bytes(1000))
    append = Append("a", IDS["a"], 0, b"header", records)
    for version in VERSIONS:
        frame = encode([append], version=version, correlation=1, client_id="x", timeout_ms=1)
        assert any(buffer is records for buffer in frame.buffers)


@pytest.mark.parametrize("version", VERSIONS)
def test_answers_find_their_appends(version: int) -> None:
    """Error codes, base offsets and messages come by topic (or its id) and partition."""
    told = [
        Append("a", IDS["a"], 1, b"", memoryview(b"")),
        Append("a", IDS["a"], 0, b"", memoryview(b"")),
        Append("b.c", IDS["b.c"], 0, b"", memoryview(b"")),
    ]
    topic_class = ProduceResponse.TopicProduceResponse
    responses = [
        topic_class(
            name=name,
            topic_id=IDS[name],
            partition_responses=[
                topic_class.PartitionProduceResponse(index=a.partition, error_code=a.partition * 45, base_offset=7)
                for a in group
            ],
        )
        for name, group in groupby(told, lambda append: append.topic)
    ]
    answer = ProduceResponse(responses=responses, throttle_time_ms=12)
    body = bytes(answer.encode(version=version))
    head = (77).to_bytes(4, "big") + (b"\0" if version >= 9 else b"")

    appended, throttle_ms = decode(memoryview(head + body), 77, version)

    assert throttle_ms == 12
    for append in told:
        found = appended[answer_key(append, version)]
        assert (found.error_code, found.base_offset) == (append.partition * 45, 7)
    with pytest.raises(ConnectionError, match="answered request 77"):
        decode(memoryview(head + body), 78, version)


@st.composite
def answers(draw: st.DrawFn) -> ProduceResponse:
    """Answers about some partitions, most of them well."""
    topic_class = ProduceResponse.TopicProduceResponse
    partition_class = topic_class.PartitionProduceResponse
    whole = st.integers(0, 2**63 - 1)

    def partition(index: int) -> Any:
        errors = draw(st.just([]) | st.just([partition_class.BatchIndexAndErrorMessage(3, "bad key")]))
        return partition_class(
            index=index,
            error_code=draw(st.sampled_from([0, 0, 0, 3, 45])),
            base_offset=draw(whole | st.just(-1)),
            log_append_time_ms=draw(whole | st.just(-1)),
            log_start_offset=draw(whole),
            record_errors=errors,
            error_message=draw(st.none() | st.sampled_from(["", "no"])),
        )

    topics = [
        topic_class(name=name, topic_id=IDS[name], partition_responses=[partition(i) for i in range(draw(counts))])
        for counts in [st.sampled_from([0, 1, 2, 130])]
        for name in draw(st.lists(st.sampled_from(sorted(IDS)), max_size=3, unique=True))
    ]
    return ProduceResponse(responses=topics, throttle_time_ms=draw(st.integers(0, 2**31 - 1)))


@pytest.mark.parametrize("version", VERSIONS)
@settings(max_examples=15)
@given(answer=answers())
def test_answers_read_as_kafka_python_reads_them(version: int, answer: ProduceResponse) -> None:
    """Every version and every answer, well or not, gives the same values."""
    body = bytes(answer.encode(version=version))
    theirs = ProduceResponse.decode(body, version=version)
    head = (1).to_bytes(4, "big") + (b"\0" if version >= 9 else b"")

    appended, throttle_ms = decode(memoryview(head + body), 1, version)

    assert throttle_ms == theirs.throttle_time_ms
    assert {key: tuple(found) for key, found in appended.items()} == {
        (t.topic_id.bytes if version >= 13 else t.name, p.index): (
            p.error_code,
            p.base_offset,
            getattr(p, "error_message", None),
        )
        for t in theirs.responses
        for p in t.partition_responses
    }


def test_version_is_the_highest_both_know() -> None:
    """Brokers of all ages get what they understand."""
    assert version_for({0: (3, 13)}) == 13
    assert version_for({0: (0, 9)}) == 9
    assert version_for({0: (3, 99)}) == VERSION_MAX
