"""What a broker's settings say follows from the layout."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from isthmus.local.layout import Layout, Ports
from isthmus.local.properties import as_text, server_properties


def layout(brokers: int, properties: Mapping[str, str] | None = None, sasl_ssl: int = 0) -> Layout:
    """A cluster whose node `n` listens on 9000 + n and 9050 + n."""
    nodes = (
        Ports(plaintext=9000 + n, controller=9050 + n, sasl_ssl=sasl_ssl and sasl_ssl + n)
        for n in range(1, brokers + 1)
    )
    return Layout(
        name="east",
        cluster_id="AAAAAAAAQACAAAAAAAAAAQ",
        kafka_version="4.4.0",
        nodes=tuple(nodes),
        properties=properties or {},
    )


def settings(layout: Layout, node_id: int = 1) -> dict[str, str]:
    """The text of `server.properties`, as pairs."""
    text = server_properties(layout, node_id, Path("/data/node"))
    return dict(line.split("=", 1) for line in text.splitlines())


def test_nodes_know_each_other() -> None:
    """Every node names all controllers, and itself."""
    second = settings(layout(3), node_id=2)
    assert second["node.id"] == "2"
    assert second["controller.quorum.voters"] == "1@127.0.0.1:9051,2@127.0.0.1:9052,3@127.0.0.1:9053"
    assert second["listeners"] == "PLAINTEXT://127.0.0.1:9002,CONTROLLER://127.0.0.1:9052"
    assert second["log.dirs"] == "/data/node/data"


@pytest.mark.parametrize(("brokers", "factor", "in_sync"), [(1, 1, 1), (2, 2, 1), (3, 3, 2), (5, 3, 2)])
def test_replication_follows_the_number_of_brokers(brokers: int, factor: int, in_sync: int) -> None:
    """Internal topics have up to three replicas and stay writable without one of three."""
    one = settings(layout(brokers))
    for topic in ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic"):
        assert one[f"{topic}.replication.factor"] == str(factor)
    assert one["default.replication.factor"] == str(factor)
    assert one["min.insync.replicas"] == one["transaction.state.log.min.isr"] == str(in_sync)


def test_given_properties_win() -> None:
    """What the caller gives is added, and replaces what we would say."""
    one = settings(layout(1, {"num.io.threads": "8", "message.max.bytes": "5000"}))
    assert (one["num.io.threads"], one["message.max.bytes"]) == ("8", "5000")


def test_a_node_has_properties_of_its_own() -> None:
    """What is given for one node is in its settings only, and wins over what all have."""
    both = replace(layout(2, {"broker.rack": "any"}), node_properties=({"broker.rack": "a"}, {}))
    assert [settings(both, node_id)["broker.rack"] for node_id in (1, 2)] == ["a", "any"]


def test_a_secured_cluster_has_another_listener() -> None:
    """Clients' SASL_SSL stands beside the PLAINTEXT listener between the brokers."""
    one = settings(layout(1, sasl_ssl=9100))
    assert one["listeners"] == "PLAINTEXT://127.0.0.1:9001,SASL_SSL://127.0.0.1:9101,CONTROLLER://127.0.0.1:9051"
    assert one["listener.security.protocol.map"] == "PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT"
    assert one["inter.broker.listener.name"] == "PLAINTEXT"


def test_backslashes_are_doubled() -> None:
    """Java reads a backslash as the beginning of an escape."""
    assert as_text({"a": r"RULE:^CN=(\w+)$/$1/"}) == "a=RULE:^CN=(\\\\w+)$/$1/\n"
