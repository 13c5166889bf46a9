"""Schema registries over REST: looked at, compared, made alike, and which of them is the primary one."""

from __future__ import annotations

from pathlib import Path

import pytest

from isthmus import config
from isthmus.web.access.tokens import Role
from testing.brokers.registry import registry_server
from testing.records.schemas import configuration_of, held, record
from testing.rest.asking import serving

pytestmark = pytest.mark.integration


def test_registries_are_made_alike_and_another_one_becomes_the_primary_one(tmp_path: Path) -> None:
    """As by `isthmus schemas`: by an admin alone, tried first, and an operation where it takes long."""
    with registry_server() as east, registry_server() as west:
        east.register("orders-value", record("Order", "id"))
        configuration = config.parse(configuration_of(east.url, west.url))
        with serving(configuration, tmp_path) as served:
            assert served.ask("POST", "/v1/schemas:sync", Role.OPERATOR).status_code == 403
            (plan,) = served.read("/v1/schemas/diff")
            assert (plan["registry"], plan["primary"], plan["is_alike"]) == ("west", "east", False)
            tried = served.ended(served.begin("/v1/schemas:sync?dry_run=true", json={"clusters": ["west"]}))
            assert (tried["state"], tried["result"]) == ("SUCCEEDED", [plan])
            assert held(west) == []
            synced = served.ended(served.begin("/v1/schemas:sync"))
            assert (synced["state"], synced["result"][0]["problem"]) == ("SUCCEEDED", None)
            assert synced["progress"][-1]["step"].startswith("west: ")
            assert held(west) == held(east)
            (row,) = served.read("/v1/clusters/west/schemas")
            assert (row["subject"], row["name"], row["version"]) == ("orders-value", "orders", 1)

            moving = {"cluster": "west"}
            assert served.ask("POST", "/v1/schemas:primary?dry_run=true", json=moving).status_code == 200
            assert (east.store.mode(""), west.store.mode("")) == ("READWRITE", "IMPORT")
            assert served.ask("POST", "/v1/schemas:primary", json=moving).status_code == 200
            assert (east.store.mode(""), west.store.mode("")) == ("IMPORT", "READWRITE")
            rows = served.read("/v1/schemas")
            assert [(row["registry"], row["role"], row["mode"]) for row in rows] == [
                ("east", "primary", "IMPORT"),
                ("west", "other", "READWRITE"),
            ]
            unknown = served.ask("POST", "/v1/schemas:sync", json={"clusters": ["nowhere"]})
            assert (unknown.status_code, unknown.json()["code"]) == (400, "ISTH-CONFIG")
            assert served.ask("GET", "/v1/clusters/nowhere/schemas").status_code == 404
