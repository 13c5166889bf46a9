"""The description of a cluster survives being written down."""

from __future__ import annotations

from pathlib import Path

import pytest

from isthmus.errors import ConfigError
from isthmus.local.layout import Layout, Ports, layout_from_json
from isthmus.local.ports import choose_ports

FILE = Path("/state/east/cluster.json")
LAYOUT = Layout(
    name="east",
    cluster_id="AAAAAAAAQACAAAAAAAAAAQ",
    kafka_version="4.4.0",
    nodes=(Ports(plaintext=9212, controller=9242, sasl_ssl=9192),),
    secure=True,
    properties={"message.max.bytes": "5000"},
    node_properties=({"broker.rack": "a"},),
)


def test_a_layout_is_read_back() -> None:
    """What was written is what is read."""
    assert layout_from_json(LAYOUT.to_json(), FILE) == LAYOUT


@pytest.mark.parametrize("text", ["", "{}", "[]", LAYOUT.to_json().replace('sion": 1', 'sion": 2')])
def test_a_foreign_description_is_refused(text: str) -> None:
    """Other text, or one of another version, is an error that says what to do."""
    with pytest.raises(ConfigError) as refused:
        layout_from_json(text, FILE)
    assert str(FILE.parent) in refused.value.hint


@pytest.mark.parametrize("secure", [False, True])
def test_clients_find_the_ports_asked_for(secure: bool) -> None:
    """Brokers' clients use the base port and those after it; no port is given twice."""
    nodes = choose_ports(9, 9192, secure, mutual_tls=secure)
    assert [ports.sasl_ssl or ports.plaintext for ports in nodes] == list(range(9192, 9201))
    every = [port for ports in nodes for port in ports.all]
    assert len(set(every)) == len(every)
    assert max(every) < 9192 + 100
