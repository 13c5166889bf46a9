"""Links and namespaces declared, changed and taken back over HTTP, on the clusters' own ledgers."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from isthmus.cli.app import app
from isthmus.fabric.fabric import Fabric
from isthmus.local import LocalCluster
from isthmus.model.links.declaration import deletion
from isthmus.web.access.auditing import trail
from isthmus.web.access.tokens import Role
from testing.records import topics
from testing.rest.asking import Served
from testing.runs.declaring import cut, maps
from testing.verbs import AsyncDeclaredLinks
from tests.integration.web.bodies import Namer, body_of
from tests.integration.web.bodies import name as name

pytestmark = pytest.mark.integration


def test_a_link_is_declared_changed_and_deleted(served: Served, name: str) -> None:
    """By an admin: once for all requests with one key, and changed only by who knows how it stands."""
    key = {"Idempotency-Key": name}
    wanted = body_of(name, settings={"limits.bytes_per_s": 1 << 20})
    assert served.ask("POST", "/v1/links", Role.OPERATOR, json=wanted).status_code == 403
    assert served.ask("POST", "/v1/links?dry_run=true", json=wanted).json()["attached"][0]["source"] == f"{name}.a-*"
    created = served.ask("POST", "/v1/links", json=wanted, headers=key)
    assert created.status_code == 201, created.text
    again = served.ask("POST", "/v1/links", json=wanted, headers=key)
    assert (again.status_code, again.json()) == (201, created.json())
    other = served.ask("POST", "/v1/links", json={**wanted, "settings": {}}, headers=key)
    assert (other.status_code, other.json()["code"]) == (422, "ISTH-REQUEST")
    otherwise = served.ask("POST", "/v1/links", json={**wanted, "settings": {}})
    assert (otherwise.status_code, otherwise.json()["code"]) == (409, "ISTH-PLAN-REFUSED")

    one = f"/v1/links/{name}"
    read = served.ask("GET", one)
    assert read.headers["ETag"] == created.headers["ETag"]
    assert read.json()["declaration"]["link"] == name
    change = {"settings": {"limits.bytes_per_s": None, "limits.bytes_in_flight": 1 << 22}}
    assert served.ask("PATCH", one, json=change).status_code == 428
    changed = served.ask("PATCH", one, json=change, headers={"If-Match": read.headers["ETag"]})
    assert changed.json()["settings"]["limits.bytes_in_flight"] == 1 << 22
    (line,) = [each for each in trail() if (each.what, each.target, each.result) == ("update link", name, "done")]
    assert [1 << 20, None] in line.difference.values()
    assert {each["by"] for each in changed.json()["said"]} == {"a admin over REST"}
    assert served.ask("DELETE", one, headers={"If-Match": read.headers["ETag"]}).status_code == 412
    limits = served.ask("GET", f"{one}/limits")
    assert limits.json() == {"bytes_per_s": None, "bytes_in_flight": 1 << 22}
    written = served.ask(
        "PUT",
        f"{one}/limits",
        Role.OPERATOR,
        json={"bytes_per_s": 5_000_000, "bytes_in_flight": 1 << 22},
        headers={"If-Match": limits.headers["ETag"]},
    )
    assert written.json() == {"bytes_per_s": 5_000_000, "bytes_in_flight": 1 << 22}

    more = {"attached": [{"kind": "group", "source": f"{name}.app*"}]}
    attached = served.ask("POST", f"{one}:attach", json=more).json()["attached"]
    assert [each["kind"] for each in attached] == ["group", "topic"]
    deleted = served.ask("DELETE", one, headers={"If-Match": "*"})
    assert deleted.json()["deleted"] is True
    assert served.ask("GET", one).status_code == 404
    served.ask("DELETE", f"/v1/clusters/west/namespaces/topic/{name}.x-*", headers={"If-Match": "*"})


def test_a_deletion_that_one_cluster_has_heard_of_is_ended(served: Served, name: str, tmp_path: Path) -> None:
    """Whoever asks for it again, by command or over REST, of a link or of a tree: it is found, and not declared."""
    file, tree = tmp_path / "isthmus.yaml", f"{name}-tree"
    servers = {each.alias: {"bootstrap_servers": each.bootstrap_servers[0]} for each in served.configuration.clusters}
    file.write_text(yaml.safe_dump({"clusters": servers}))
    west_alone = cut(served.configuration, "east")
    fabric = Fabric(served.configuration)
    fabric.declarations.create(name, source="east", target="west", maps=maps(f"{name}."), validate=False)
    fabric.declared_trees.create(tree, ["east", "west"], {"topics": [f"{tree}.*"]}, validate=False)
    asyncio.run(AsyncDeclaredLinks(west_alone).change(name, deletion))
    Fabric(west_alone).declared_trees.delete(tree)

    for noun, one in (("link", name), ("tree", tree)):
        asked = CliRunner().invoke(app, [noun, "delete", one, "-c", str(file)])
        assert "cannot ask whether to" in asked.stderr, asked.stderr
        deleted = served.ask("DELETE", f"/v1/{noun}s/{one}", headers={"If-Match": "*"})
        assert (deleted.status_code, deleted.json()["behind"]) == (200, []), deleted.text
        assert served.ask("DELETE", f"/v1/{noun}s/{one}", headers={"If-Match": "*"}).status_code == 404


def test_a_link_of_the_file_is_changed_there(served: Served) -> None:
    """It is not declared: what only declared links can has no effect, and says where to go."""
    patched = served.ask("PATCH", "/v1/links/{link}", json={"mode": "async"}, headers={"If-Match": "*"})
    assert (patched.status_code, "Links of the file" in patched.json()["hint"]) == (404, True)


def test_limits_and_settings_of_a_link_of_the_file_change_beside_it(served: Served) -> None:
    """By an operator who knows how they stand, until they are taken back."""
    one, anyhow = "/v1/links/{link}", {"If-Match": "*"}
    before = served.ask("GET", f"{one}/limits")
    known = {"If-Match": before.headers["ETag"]}
    wanted = {"bytes_per_s": 50_000_000, "bytes_in_flight": None}
    assert served.ask("PUT", f"{one}/limits", Role.VIEWER, json=wanted, headers=known).status_code == 403
    limited = served.ask("PUT", f"{one}/limits", Role.OPERATOR, json=wanted, headers=known)
    assert limited.json() == {**before.json(), "bytes_per_s": 50_000_000}
    assert served.ask("PUT", f"{one}/limits", json=wanted, headers=known).status_code == 412
    more = {"settings": {"mm2.checkpoints_interval_s": 30}, "unset": ["limits.bytes_in_flight"]}
    told = served.ask("PUT", f"{one}/settings", Role.OPERATOR, json=more, headers=anyhow).json()
    assert told["changed"] == ["limits.bytes_per_s", "mm2.checkpoints_interval_s"]
    assert (told["settings"]["mm2.checkpoints_interval_s"], "REST" in told["by"]) == (30, True)
    assert served.ask("PUT", f"{one}/settings", json={}, headers=anyhow).status_code == 422
    wrong = served.ask("PUT", f"{one}/settings", json={"settings": {"mm2.heartbeats": True}}, headers=anyhow)
    assert (wrong.status_code, wrong.json()["code"]) == (400, "ISTH-CONFIG")
    assert served.ask("DELETE", f"{one}/settings", headers=anyhow).json()["changed"] == []
    assert served.ask("GET", f"{one}/limits").json() == before.json()


@pytest.mark.parametrize(
    "settings",
    [
        {"name": "x"},
        {"topics.naming": "mm2"},
        {"topics": 5},
        {"topics.include.x": 1},
        {"limits.bytes_per_s": "nothing"},
        {"limits..x": 1},
        {"": 1},
        # What would have this host read a file, or change how it logs in.
        {"properties.sasl.jaas.config": "com.evil.LoginModule required;"},
        {"source.security.tls.ca_file": "/etc/shadow"},
        {"source.ssl.truststore.location": "/etc/shadow"},
        {"topics.start": "${file:/etc/passwd:root}"},
        {"limits.bytes_per_s": "${env:HOME}"},
    ],
)
def test_settings_that_a_declared_link_has_not_are_refused(served: Served, name: str, settings: dict[str, Any]) -> None:
    """As 400, and nothing is declared."""
    answer = served.ask("POST", "/v1/links", json=body_of(name, settings=settings))

    assert (answer.status_code, answer.json()["code"]) == (400, "ISTH-CONFIG")
    assert served.ask("GET", f"/v1/links/{name}").status_code == 404


def test_a_namespace_is_declared_reserved_and_taken_back(served: Served, topic: Namer) -> None:
    """Named in paths as in answers."""
    prefix = topic("ns")
    at = "/v1/clusters/west/namespaces"
    created = served.ask("POST", at, json={"namespace": f"{prefix}*"})
    assert (created.status_code, created.json()["prefix"]) == (201, prefix)
    assert served.ask("POST", at, json={"namespace": f"{prefix}*"}).status_code == 409
    one = f"{at}/topic/{prefix}*"
    changed = served.ask("PATCH", one, json={"reserved": True}, headers={"If-Match": created.headers["ETag"]})
    assert changed.json()["reserved"] is True
    stale = served.ask("PATCH", one, json={"reserved": False}, headers={"If-Match": created.headers["ETag"]})
    assert stale.status_code == 412
    assert f"{prefix}*" in [each["namespace"] for each in served.read(at)]
    assert served.read(one)["reserved"] is True
    # What has been denied by no rule is not enforced where nobody asks brokers for rights.
    assert served.ask("PATCH", one, json={"enforce": True}, headers={"If-Match": "*"}).status_code == 409
    assert served.ask("DELETE", one, headers={"If-Match": served.ask("GET", one).headers["ETag"]}).status_code == 200
    assert served.ask("GET", one).status_code == 404
    assert served.ask("POST", at, json={"namespace": "__x*"}).status_code == 400


def test_a_tree_is_declared_changed_and_deleted(
    served: Served, east: LocalCluster, west: LocalCluster, topic: Namer
) -> None:
    """By an admin who knows how it stands; its distributors are there and gone with it, and so is their plan."""
    name, other = topic("tree"), topic("other")
    for cluster in (east, west):
        topics.create(cluster, name)
    wanted = {"name": name, "clusters": ["east", "west"], "settings": {"topics": [name]}}
    one, anyhow = f"/v1/trees/{name}", {"If-Match": "*"}
    assert served.ask("POST", "/v1/trees", Role.OPERATOR, json=wanted).status_code == 403
    tried = served.ask("POST", "/v1/trees?dry_run=true", json=wanted)
    assert (tried.status_code, served.ask("GET", one).status_code) == (200, 404), tried.text
    created = served.ask("POST", "/v1/trees", json=wanted)
    try:
        assert created.status_code == 201, created.text
        twin = {**wanted, "name": f"{name}-2"}
        assert served.ask("POST", "/v1/trees", json=twin).status_code == 409
        distributors = {each["link"] for each in served.read("/v1/links")} & {f"{name}.east.1", f"{name}.west.1"}
        assert len(distributors) == 2
        change = {"settings": {"topics": [name, other], "margin_s": 30}}
        known = {"If-Match": created.headers["ETag"]}
        assert served.ask("PATCH", one, json=change).status_code == 428
        assert served.ask("PATCH", one, json={"settings": {"clusters": ["east"]}}, headers=known).status_code == 400
        assert served.ask("PATCH", f"{one}?dry_run=true", json=change, headers=known).status_code == 200
        changed = served.ask("PATCH", one, json=change, headers=known)
        assert changed.json().items() >= change["settings"].items()
        assert served.ask("DELETE", one, headers=known).status_code == 412
        assert served.read(one)["declaration"].items() >= change["settings"].items()
        assert [link["link"] for link in served.read(f"{one}/plan")["links"]] == [f"{name}.east.1", f"{name}.west.1"]
    finally:
        deleted = served.ask("DELETE", one, headers=anyhow)
    assert (deleted.status_code, deleted.json()["deleted"]) == (200, True)
    assert served.ask("GET", one).status_code == 404
    assert f"{name}.east.1" not in {each["link"] for each in served.read("/v1/links")}


def test_groups_are_synced_and_topics_forgotten(served: Served) -> None:
    """Once, on demand; a dry run tells what would be, and a topic that the link selects is not forgotten."""
    (plan,) = served.ask("POST", "/v1/links/{link}/groups:sync?dry_run=true", Role.OPERATOR).json()
    assert plan["link"] == served.link
    assert served.ask("POST", "/v1/links/{link}/groups:sync?group=nobody", Role.OPERATOR).status_code == 409
    assert served.ask("POST", "/v1/links/{link}:forget").json() == []
    refused = served.ask("POST", "/v1/links/{link}:forget", json={"topics": [served.topic]})
    assert (refused.status_code, refused.json()["code"]) == (400, "ISTH-CONFIG")
    assert served.ask("POST", "/v1/clusters/west/links/nothing:forget").status_code == 404
