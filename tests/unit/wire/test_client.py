"""Addresses of brokers."""

from __future__ import annotations

import pytest

from isthmus.errors import ConfigError
from isthmus.wire.address import split_address


@pytest.mark.parametrize(
    ("server", "address"),
    [
        ("kafka.example:9092", ("kafka.example", 9092)),
        ("127.0.0.1:1", ("127.0.0.1", 1)),
        ("[::1]:9092", ("::1", 9092)),
    ],
)
def test_addresses(server: str, address: tuple[str, int]) -> None:
    """Host and port, with IPv6 in brackets."""
    assert split_address(server, "east") == address


@pytest.mark.parametrize("server", ["", "kafka.example", ":9092", "kafka.example:", "kafka.example:x"])
def test_what_is_no_address_names_its_field(server: str) -> None:
    """The error tells where in the configuration to look."""
    with pytest.raises(ConfigError) as told:
        split_address(server, "east")
    assert told.value.field == "clusters.east.bootstrap_servers"
