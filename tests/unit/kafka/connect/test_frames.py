"""Versions and headers of Kafka's messages."""

from __future__ import annotations

import pytest
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse, MetadataRequest

from isthmus.errors import UnsupportedByBroker
from isthmus.kafka import messages
from isthmus.kafka.connect.frames import decode_response, encode_request, pick_version, skip_response_header


def test_version_is_within_what_both_sides_and_the_request_allow() -> None:
    """The highest common version, unless the request is pinned lower."""
    offered = {MetadataRequest.API_KEY: (0, 9)}
    assert pick_version(MetadataRequest(topics=[]), offered, "east") == 9
    assert pick_version(MetadataRequest(topics=[], max_version=4), offered, "east") == 4
    assert pick_version(MetadataRequest(topics=[], min_version=9), offered, "east") == 9


def test_what_the_broker_does_not_offer_is_named() -> None:
    """Neither an unknown message nor a version that is too old is sent."""
    with pytest.raises(UnsupportedByBroker, match="versions 0 to 3 are offered") as told:
        pick_version(MetadataRequest(topics=[], min_version=4), {MetadataRequest.API_KEY: (0, 3)}, "east")
    assert "2.8" in told.value.hint
    with pytest.raises(UnsupportedByBroker, match="not offered"):
        pick_version(ApiVersionsRequest(), {}, "east")


def test_tagged_fields_of_a_header_are_skipped() -> None:
    """Flexible headers may carry fields nobody told us about (KIP-482)."""
    header = (5).to_bytes(4, "big") + bytes([2, 0, 3]) + b"abc" + bytes([0x85, 0x01, 1]) + b"x"
    assert skip_response_header(memoryview(header + b"body"), 5, flexible=True) == len(header)
    assert skip_response_header(memoryview(header), 5, flexible=False) == 4


def test_answers_out_of_step_are_refused() -> None:
    """An answer to another request than the oldest means that the stream cannot be read any more."""
    with pytest.raises(ConnectionError, match="answered request 6 where 5 was next"):
        skip_response_header(memoryview((6).to_bytes(4, "big")), 5, flexible=False)


def test_clients_of_kafka_python_read_their_answers_beside_isthmus() -> None:
    """They ask a broker for its versions by another class than ours, in the same process: each reads its own answer."""
    feature = ApiVersionsResponse.SupportedFeatureKey(name="group.version", min_version=0, max_version=1)
    answer = ApiVersionsResponse(version=4, error_code=0, api_keys=[], throttle_time_ms=0, supported_features=[feature])
    frame = (7).to_bytes(4, "big") + bytes(answer.encode(version=4))

    theirs, ours = ApiVersionsRequest(version=4), messages.ApiVersionsRequest()
    theirs.with_header(correlation_id=7, client_id="theirs")
    encode_request(ours, 4, 7, "ours")
    read = theirs.header.get_response_class().decode(frame, header=True)
    assert [each.name for each in read.supported_features] == ["group.version"]
    read = decode_response(ours, 4, memoryview(frame), 7)
    assert isinstance(read, messages.ApiVersionsResponse)
    assert [each.name for each in read.supported_features] == ["group.version"]
