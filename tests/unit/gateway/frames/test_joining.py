"""Answers to members of groups that brokers assign, at a cluster that they came to."""

from __future__ import annotations

import pytest

from isthmus.gateway.bounds import DEFAULTS
from isthmus.gateway.conversation import Conversation
from isthmus.gateway.frames.serving import Serving
from isthmus.kafka.connect.frames import encode_request
from isthmus.kafka.messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from tests.unit.gateway.framing import SIZES, framed, passed


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize(
    ("stay", "epoch", "code", "told"),
    [
        (1, 3, 69, 25),
        (2, 3, 69, 25),
        (0, 3, 69, 69),
        (1, 3, 0, 0),
        (1, 3, 25, 25),
        (1, 3, 110, 110),
        (1, 0, 69, 69),
        (1, -1, 69, 25),
    ],
)
def test_a_group_that_is_not_there(stay: int, epoch: int, code: int, told: int, version: int, size: int) -> None:
    """Its members join it where they came to: it is none that went away. Who joins and hears that meets a group of
    another kind, and would ask for ever.
    """
    _, requests, answers = Conversation.create(DEFAULTS, lambda *_: ("", 0), Serving(stay=stay))
    request = ConsumerGroupHeartbeatRequest(group_id="readers", member_id="one", member_epoch=epoch)
    sent = bytes(encode_request(request, version, 7, "client"))

    def answer(code: int) -> bytes:
        said = ConsumerGroupHeartbeatResponse(
            throttle_time_ms=0, error_code=code, error_message="no group", member_epoch=0, heartbeat_interval_ms=0
        )
        return bytes(framed(said, version, flexible=True))

    assert passed(requests, sent, size) == sent
    came = answer(code)
    pieces = (bytearray(came[at : at + size]) for at in range(0, len(came), size))
    assert b"".join(bytes(part) for piece in pieces for part in answers.take(memoryview(piece))) == answer(told)
