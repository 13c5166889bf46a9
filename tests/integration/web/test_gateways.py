"""Gateways over REST: an operator says that one has ended."""

from __future__ import annotations

import json
import logging
import time

import pytest

from isthmus.local import LocalCluster
from isthmus.web.access.tokens import Role
from testing.gateways.registered import elsewhere, movable, written
from testing.patience import TERM_S, pause_s
from testing.rest.asking import Served

pytestmark = pytest.mark.integration


def test_a_gateway_is_forgotten(
    served: Served, east: LocalCluster, west: LocalCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """By its id, by an admin, and the audit log says which; a dry run changes nothing."""
    caplog.set_level(logging.INFO, "isthmus.audit")
    one = elsewhere("rest.example:19092")
    written(east, one, movable(one, east))
    written(west, movable(one, east))
    path = f"/v1/clusters/east/gateways/{one.gateway}:forget"

    def shown() -> list[str]:
        found = served.read("/v1/gateways?cluster=east")["gateways"]
        return [name for each in found for name in each["ids"] if each["address"] == one.advertised]

    assert served.ask("POST", path, Role.OPERATOR).status_code == 403
    assert served.ask("POST", "/v1/clusters/east/gateways/nowhere:forget").status_code == 404
    # A server that read the ledgers a moment before the gateway wrote has heard it, and refuses for ten seconds.
    deadline = time.monotonic() + TERM_S
    while not (answer := served.ask("POST", f"{path}?dry_run=true")).is_success:
        assert "is heard" in answer.text, answer.text
        assert time.monotonic() < deadline, answer.text
        time.sleep(pause_s(0.1))
    would = answer.json()
    assert (would["gateway"]["ids"], would["ledgers"], would["links"]) == ([one.gateway], ["east", "west"], [])
    assert shown() == [one.gateway]
    done = served.ask("POST", path).json()
    assert (done["gateway"]["ids"], done["ledgers"], done["away"]) == (would["gateway"]["ids"], would["ledgers"], {})
    assert shown() == []

    lines = [json.loads(record.getMessage()) for record in caplog.records if record.name == "isthmus.audit"]
    told = [each for each in lines if each["what"] == "forget gateway" and each["result"] == "done"]
    assert [(each["difference"]["ids"], each["difference"]["dry_run"]) for each in told] == [
        ([one.gateway], True),
        ([one.gateway], False),
    ]
