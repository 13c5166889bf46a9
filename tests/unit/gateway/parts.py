"""Parts of a gateway that holds answers, as tests of one of them need the others."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from kafka.protocol.producer import ProduceRequest, ProduceResponse

from isthmus.gateway.frames.walking import BatchWritten
from isthmus.kafka.batches.batch import HEADER, TRANSACTIONAL
from isthmus.kafka.connect.frames import encode_request

TIMEOUT_MS = 12_345
Parts = list[tuple[BatchWritten, bytes | None]]


def batch(records: int, *, is_transactional: bool = False, body: bytes = b"") -> bytes:
    """A batch whose header says how many offsets it takes."""
    attributes = TRANSACTIONAL if is_transactional else 0
    return HEADER.pack(0, 49 + len(body), 0, 2, 0, attributes, records - 1, 0, 0, 7, 0, 0, records) + body


def produce(
    parts: Parts, version: int, *, acks: int = -1, correlation: int = 7, within: str | None = None
) -> bytearray:
    """The frame of a Produce."""
    data = ProduceRequest.TopicProduceData
    topics = [
        data(
            name=topic,
            partition_data=[
                data.PartitionProduceData(index=each.partition, records=body)
                for each, body in parts
                if each.topic == topic
            ],
        )
        for topic in dict.fromkeys(each.topic for each, _ in parts)
    ]
    request = ProduceRequest(transactional_id=within, acks=acks, timeout_ms=TIMEOUT_MS, topic_data=topics)
    return bytearray(encode_request(request, version, correlation, "client"))


def answered(parts: Parts, codes: Sequence[int], version: int, *, base: int = -1, correlation: int = 7) -> bytes:
    """The answer to a Produce, written by another encoder than ours: a code for each partition."""
    data = ProduceResponse.TopicProduceResponse
    told = list(zip(parts, codes, strict=False))
    topics = [
        data(
            name=topic,
            partition_responses=[
                data.PartitionProduceResponse(
                    index=each.partition,
                    error_code=code,
                    base_offset=base,
                    log_append_time_ms=-1,
                    log_start_offset=-1,
                    record_errors=[],
                    error_message=None,
                )
                for (each, _), code in told
                if each.topic == topic
            ],
        )
        for topic in dict.fromkeys(each.topic for (each, _), _ in told)
    ]
    answer = ProduceResponse(throttle_time_ms=0, responses=topics)
    body = struct.pack(">i", correlation) + (b"\0" if version >= 9 else b"") + bytes(answer.encode(version=version))
    return struct.pack(">i", len(body)) + body
