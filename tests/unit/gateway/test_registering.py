"""What a gateway says of itself: others take it for gone when its beat stands still."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Final, cast

import pytest

from isthmus.errors import ConfigError
from isthmus.gateway.ports import BrokerPorts, ListenRange
from isthmus.gateway.registering import beaten, registration
from isthmus.gateway.server import Gateway, GatewaySettings
from isthmus.gateway.standing import standing
from isthmus.gateway.synchronous.keeping import HeldCount
from isthmus.ledger.documents.gateways import HeldForLink, RefusedCount
from isthmus.model.cluster import Cluster
from isthmus.model.configuration import Configuration
from isthmus.model.gateways.figures import ClientFigures, GatewayFigures, Refusal
from isthmus.model.process.listening import ListenAddress

HOST: Final = "127.0.0.1"
SETTINGS = GatewaySettings(listen=ListenRange("::", 19092, 19099), advertise=ListenAddress("kafka.example", 29092))


@pytest.mark.parametrize(
    ("advertise", "certificate", "why"),
    [("::", None, "on their own host"), (HOST, Path("nowhere.pem"), "cannot be used")],
)
def test_a_mistake_is_told_before_any_ledger_hears_of_it(advertise: str, certificate: Path | None, why: str) -> None:
    """Addresses that lead nowhere and files that cannot be used: nobody is asked before."""
    east = Cluster(alias="east", bootstrap_servers=(f"{HOST}:1",))
    settings = GatewaySettings(
        listen=ListenRange(HOST, 1, 1),
        advertise=ListenAddress(advertise, 1),
        certificate=certificate,
        key=certificate,
    )

    async def begin() -> None:
        async with standing(Configuration(clusters=(east,), links=()), "east", settings):
            pass

    with pytest.raises(ConfigError, match=why):
        asyncio.run(begin())


def test_each_beat_is_another_one_and_tells_what_is_counted() -> None:
    """Before clients are served as well as while they are."""
    first = registration(SETTINGS)
    figures = GatewayFigures(
        cluster="east",
        clients=[ClientFigures(software="java", version="4", connections=2)],
        refused={Refusal.SILENT: 3},
    )
    keeper = SimpleNamespace(count_held=lambda: {"orders": HeldCount(4, 1.5)})
    gateway = cast(
        Gateway,
        SimpleNamespace(
            figures=lambda: figures, keeper=keeper, places=BrokerPorts(host="h", port=1, first_node=3, size=8)
        ),
    )

    before = beaten(first, None)
    now = beaten(before, gateway)

    assert (first.gateway, first.advertised, first.ports) == (now.gateway, "kafka.example:29092", (19092, 19099))
    assert first.beat < before.beat < now.beat
    assert (first.first_node, now.first_node) == (-1, 3)
    assert (now.connections, now.held) == (2, (HeldForLink("orders", 4, 1500),))
    assert now.refused == (RefusedCount("silent", 3),)
    assert beaten(registration(SETTINGS), None).gateway != first.gateway
