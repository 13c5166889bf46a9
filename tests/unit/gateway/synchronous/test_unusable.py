"""Synchronous links that a gateway cannot hold for: it refuses their topics, and says why."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace
from typing import Any, Final, cast

import pytest

from isthmus.gateway.frames.duties import Duty
from isthmus.gateway.ports import ListenRange
from isthmus.gateway.server import GatewaySettings
from isthmus.gateway.synchrony import GatewayLinks
from isthmus.kafka.clock import lasting_s
from isthmus.ledger.documents.kinds import DeclarationDocument
from isthmus.model.cluster import Cluster
from isthmus.model.configuration import Configuration
from isthmus.model.gateways.synchrony import SYNC, SyncState
from isthmus.model.links.declaration import SOURCE, TARGET, attachment
from isthmus.model.namespace import NamespaceMap
from isthmus.model.naming import TargetTopic
from isthmus.model.process.listening import ListenAddress
from isthmus.model.registers import MODE, Author, change_registers

HOST: Final = "127.0.0.1"
SAID: Final = change_registers(
    (),
    {
        SOURCE: {"cluster_id": "E", "alias": "east"},
        TARGET: {"cluster_id": "W", "alias": "west"},
        MODE: SYNC,
        attachment(NamespaceMap.parse("a-:x-")): True,
    },
    Author(by="somebody", at_ms=1, where="W"),
)


@pytest.mark.parametrize(("aliases", "is_registered"), [(["east"], True), (["east", "west"], False)])
def test_a_gateway_that_cannot_hold(aliases: list[str], is_registered: bool, caplog: pytest.LogCaptureFixture) -> None:
    """Neither one whose file lacks the target nor one that may not register lets anything of the link pass."""
    documents = [DeclarationDocument(link="orders", cluster="E", registers=SAID)]
    memory = cast(
        Any,
        SimpleNamespace(
            links=["orders"], of=lambda _: SimpleNamespace(documents={each.key: each for each in documents})
        ),
    )
    clusters = tuple(Cluster(alias=alias, bootstrap_servers=(f"{HOST}:1",)) for alias in aliases)
    settings = GatewaySettings(listen=ListenRange(HOST, 1, 1), advertise=ListenAddress(HOST, 1))

    async def scenario() -> None:
        links = GatewayLinks(Configuration(clusters=clusters, links=()), "east", settings)
        links._cluster_id, links.is_registered = "E", is_registered
        for _ in range(2):
            links._take(memory, 0.0)
        links._hear(lasting_s())
        (link,) = links.links
        assert (links.of("a-1"), links.of("b-1")) == (link, None)
        assert {link.duty(is_transactional=each) for each in (False, True)} == {Duty.REFUSE}
        # What was on its way before is never answered as done.
        assert link.follower.wait((TargetTopic("x-1"), 0), 1, lambda: None) is not None
        (one,) = links._unusable.values()
        said = one.document(links.document)
        assert (said.state, said.word.lets_go) == (SyncState.OUT_OF_SYNC, ())
        assert ("west" if is_registered else "may not write") in said.reason
        links.is_registered = False
        await links.aclose()

    with caplog.at_level(logging.ERROR):
        asyncio.run(scenario())
    assert len([each for each in caplog.messages if "topics are refused here" in each]) == 1
