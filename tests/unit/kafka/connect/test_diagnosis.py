"""What is made of a connection that ended before it was of use."""

from __future__ import annotations

import socket
import ssl

import pytest

from isthmus.errors import Unreachable
from isthmus.kafka.connect.diagnosis import build_unreached, misunderstood
from isthmus.model.cluster import Cluster, Security, Tls


@pytest.mark.parametrize(
    "error",
    [
        ssl.SSLEOFError(8, "EOF occurred in violation of protocol"),
        ssl.SSLZeroReturnError(6, "TLS/SSL connection has been closed (EOF)"),
        ConnectionResetError(104, "Connection reset by peer"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_broker_that_hangs_up_in_a_handshake_is_out_of_reach(error: OSError) -> None:
    """It may be stopping: nobody's login or certificate is to blame, so the next broker is asked, and it is later."""
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        port = nobody.getsockname()[1]
        cluster = Cluster(
            alias="east",
            bootstrap_servers=(f"127.0.0.1:{port}",),
            security=Security(protocol="SSL", tls=Tls()),
        )

        told = misunderstood(error, cluster, "127.0.0.1", port)

    assert type(told) is Unreachable
    assert "broke the connection off" in told.message
    assert "stopping or overloaded" in told.hint


@pytest.mark.parametrize(
    ("error", "why"), [(TimeoutError(), "timed out"), (ConnectionRefusedError(111, "Connection refused"), "refused")]
)
def test_why_a_broker_is_out_of_reach_is_never_empty(error: OSError, why: str) -> None:
    """A timer of ours has no words: of a broker that hangs the log ended behind the colon."""
    told = build_unreached(error, Cluster(alias="east", bootstrap_servers=("east:9092",)), "east at east:9092")

    assert told.message.endswith(why)
