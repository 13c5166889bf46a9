"""Which port stands for which broker."""

from __future__ import annotations

import pytest

from isthmus.errors import ConfigError, PlanRefused
from isthmus.gateway.ports import BrokerNames, ListenRange, place_brokers
from isthmus.model.process.listening import ListenAddress

HERE = ListenAddress("kafka.example", 29092)


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("0.0.0.0:19092-19099", ListenRange("0.0.0.0", 19092, 19099)),  # noqa: S104 - only a text
        ("[::1]:19092-19092", ListenRange("::1", 19092, 19092)),
        ("broker-gateway:19092", ListenRange("broker-gateway", 19092, 19092)),
    ],
)
def test_a_range_is_read(written: str, found: ListenRange) -> None:
    """A host, its first port and its last one; or a single port."""
    assert ListenRange.parse(written) == found
    assert ListenRange.parse(str(found)) == found


@pytest.mark.parametrize("written", ["", "1-9", "host:9-1", "host:1-70000", "host:a-b", "host:", "::1:5-6"])
def test_what_is_no_range_is_refused(written: str) -> None:
    """The error says what a range looks like."""
    with pytest.raises(ConfigError):
        ListenRange.parse(written)


def test_a_broker_has_the_port_of_its_id() -> None:
    """The lowest id has the first port, the next the second, whether there is such a broker or not."""
    places = place_brokers(ListenRange("::", 19092, 19099), HERE, [11, 13])

    assert places.of(11) == ("kafka.example", 29092)
    assert places.of(13) == ("kafka.example", 29094)
    assert [places.node_at(index) for index in (0, 7)] == [11, 18]


def test_a_broker_without_a_port_is_led_to_the_first() -> None:
    """Whoever answers there leads the client on; nobody is led past the gateway."""
    places = place_brokers(ListenRange("::", 19092, 19093), HERE, [1, 2])

    assert [places.of(3), places.of(0)] == [("kafka.example", 29092)] * 2


def test_a_range_that_is_too_small_names_both_numbers() -> None:
    """Ids and ports, and how many are needed."""
    with pytest.raises(PlanRefused, match=r"brokers 1 to 2, .* ids from 1 to 4") as refused:
        place_brokers(ListenRange("::", 19092, 19093), HERE, [1, 4])
    assert "4 ports" in refused.value.hint


def test_the_first_broker_may_be_named() -> None:
    """All gateways of a cluster agree, whichever brokers are there when they start."""
    places = place_brokers(ListenRange("::", 19092, 19099), HERE, [2, 3], first_node=1)

    assert places.of(2) == ("kafka.example", 29093)
    with pytest.raises(PlanRefused) as refused:
        place_brokers(ListenRange("::", 19092, 19099), HERE, [1, 3], first_node=2)
    assert "--first-node 1 or a lower one" in refused.value.hint


def test_advertised_ports_exist() -> None:
    """The advertised range does not go beyond the last port."""
    with pytest.raises(ConfigError, match="65535"):
        place_brokers(ListenRange("::", 19092, 19099), ListenAddress("kafka.example", 65530), [1])


def test_a_name_stands_for_a_broker() -> None:
    """By the id in it, however it is spelled; any other name is for the first contact."""
    names = BrokerNames.parse("Broker-{id}.east.example:19092")

    assert str(names) == "broker-{id}.east.example:19092"
    assert names.of(12) == ("broker-12.east.example", 19092)
    for name in ("broker-12.east.example", "BROKER-12.East.Example."):
        assert names.node_at(0, name) == 12
    for name in ("", "kafka.east.example", "broker-.east.example", "broker-012.east.example", "broker-1.west.example"):
        assert names.node_at(0, name) is None
    assert names.node_at(0, "broker-1x.east.example") is None
    assert BrokerNames.parse("{id}.east:1").node_at(0, "7.east") == 7


@pytest.mark.parametrize("written", ["b{id}", "b{id}:0", "b{id}{id}:1", "b{no}:1", "b/{id}:1", "b1{id}.e:1", "b{id}:x"])
def test_what_is_no_name_for_brokers_is_refused(written: str) -> None:
    """The error says what one looks like."""
    with pytest.raises(ConfigError, match="must be a host name with"):
        BrokerNames.parse(written)
