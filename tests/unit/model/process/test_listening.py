"""Addresses to listen at."""

from __future__ import annotations

import pytest

from isthmus.model.process.listening import ListenAddress


@pytest.mark.parametrize(
    ("written", "host", "port", "is_loopback"),
    [
        ("127.0.0.1:9464", "127.0.0.1", 9464, True),
        ("127.8.0.1:1", "127.8.0.1", 1, True),
        ("localhost:65535", "localhost", 65535, True),
        ("[::1]:9464", "::1", 9464, True),
        ("0.0.0.0:9464", "0.0.0.0", 9464, False),  # noqa: S104 - it is told apart here
        ("[::]:9464", "::", 9464, False),
        ("localhost.example.com:9464", "localhost.example.com", 9464, False),
    ],
)
def test_an_address_is_read(written: str, host: str, port: int, is_loopback: bool) -> None:
    """Host and port, and whether other hosts could reach it; written again it is the same."""
    address = ListenAddress.parse(written)
    assert (*address, address.is_loopback, str(address)) == (host, port, is_loopback, written)


@pytest.mark.parametrize(
    "written", ["", ":9464", "localhost", "localhost:", "localhost:0", "localhost:65536", "::1:80", "a:9\u0665"]
)
def test_what_is_none_is_refused(written: str) -> None:
    """Told with an example of one."""
    with pytest.raises(ValueError, match=r"127\.0\.0\.1:9464"):
        ListenAddress.parse(written)
