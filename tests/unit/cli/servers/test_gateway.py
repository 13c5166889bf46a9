"""`isthmus gateway status`: what its tables say."""

from __future__ import annotations

from isthmus.cli.servers.gateway import _gateway_row
from isthmus.model.gateways.registered import RegisteredGateway, by_command, heard_part
from isthmus.model.gateways.synchrony import HEARD_S


def test_a_gateway_that_is_not_heard_is_shown_as_silent() -> None:
    """Its row says so and that none of its processes is heard; one that is heard says nothing of the kind."""
    part = RegisteredGateway(ids=("a",), address="kafka:19092", serves="east", cluster="east", pid=7, connections=3)

    (silent,) = by_command([heard_part(part, HEARD_S + 5.0)])
    (heard,) = by_command([heard_part(part, HEARD_S - 5.0)])
    (half,) = by_command([heard_part(part, HEARD_S + 5.0), heard_part(part, 0.0)])

    assert [each.is_silent for each in (silent, heard, half)] == [True, False, False]
    rows = [_gateway_row(each) for each in (silent, heard, half)]
    assert ["silent" in str(row["last_beat"]) for row in rows] == [True, False, True]
    assert [row["processes"] for row in rows] == ["0 of 1", "1 of 1", "1 of 1"]
    assert [row["connections"] for row in rows] == [0, 3, 3]
