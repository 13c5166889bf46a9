"""What of a namespace can be changed, and who is kept where access rules close it."""

from __future__ import annotations

import json
from inspect import signature
from pathlib import Path

import pytest
from pydantic import ValidationError
from typer.testing import CliRunner

from isthmus import config
from isthmus.cli.app import app
from isthmus.cli.clusters import namespace as cli_namespace
from isthmus.errors import ConfigError
from isthmus.model.kafka.transactions import OpenTransaction, TransactionState
from isthmus.model.namespace import Namespace
from isthmus.namespaces.namespace import NamespaceReport
from isthmus.namespaces.namespaces import AsyncNamespaces
from isthmus.web.access.tokens import Role
from isthmus.web.routes.bodies import NamespaceChangeBody
from tests.unit.web.callers import callers


def test_a_namespace_keeps_its_prefix_and_its_kind() -> None:
    """No verb takes another one: what has another prefix or kind is another namespace."""
    assert set(signature(AsyncNamespaces.update).parameters) == {
        "self",
        "namespace",
        "reserved",
        "async_only",
        "dry_run",
    }
    for member in ("prefix", "namespace", "kind", "exact"):
        with pytest.raises(ValidationError, match=member):
            NamespaceChangeBody.model_validate({member: "other"})


CONFIGURATION = """
clusters: {east: {bootstrap_servers: "127.0.0.1:1"}, west: {bootstrap_servers: "127.0.0.1:2"}}
"""
KEPT = {"keep": ["User:anna"]}


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/v1/links", {"link": "orders", "source": "east", "target": "west", **KEPT}),
        ("POST", "/v1/links/orders:attach", {"attached": [{"source": "a-"}], "super_user": True}),
        ("PATCH", "/v1/clusters/west/namespaces/topic/a-*", {"reserved": True, **KEPT}),
        ("PATCH", "/v1/clusters/west/namespaces/topic/a-*", {"enforce": False, "super_user": True}),
    ],
)
def test_nobody_is_kept_where_no_rules_are_asked_for(
    tmp_path: Path, method: str, path: str, body: dict[str, object]
) -> None:
    """Over REST, before any cluster is asked: whoever says it means rules that there would not be."""
    asking = callers(config.parse(CONFIGURATION), tmp_path)[Role.ADMIN]
    answer = asking.request(method, path, json=body, headers={"If-Match": "*"} if method == "PATCH" else {})
    assert (answer.status_code, answer.json()["hint"]) == (400, "Give enforce too.")


@pytest.mark.parametrize(
    "command",
    [
        ("link", "create", "orders", "--source", "east", "--target", "west", "--keep", "User:anna"),
        ("link", "attach", "orders", "--map", "a-", "--super-user"),
        ("namespace", "update", "west", "a-", "--reserved", "--keep", "User:anna"),
    ],
)
def test_commands_refuse_the_same(tmp_path: Path, command: tuple[str, ...]) -> None:
    """With the same words."""
    file = tmp_path / "isthmus.yaml"
    file.write_text(CONFIGURATION)
    found = CliRunner().invoke(app, [*command, "-c", str(file)])
    assert found.exit_code == ConfigError.exit_code
    assert "Give enforce too." in found.stderr


def test_what_is_released_is_not_closed_at_once(tmp_path: Path) -> None:
    """By command and over REST, before anything is done: it would be open in between, and its transactions aborted."""
    file = tmp_path / "isthmus.yaml"
    file.write_text(CONFIGURATION)
    command = ("namespace", "update", "west", "a-", "--no-reserved", "--enforce", "--yes", "-c", str(file))
    refused = CliRunner().invoke(app, command)
    assert (refused.exit_code, "Ask for one of both" in refused.stderr) == (ConfigError.exit_code, True), refused.stderr
    asking = callers(config.parse(CONFIGURATION), tmp_path)[Role.ADMIN]
    path, body = "/v1/clusters/west/namespaces/topic/a-*", {"reserved": False, "enforce": True}
    answer = asking.patch(path, json=body, headers={"If-Match": "*"})
    assert (answer.status_code, "Ask for one of both" in answer.json()["hint"]) == (400, True), answer.json()


OPEN = OpenTransaction("a-1", 0, TransactionState.OPEN, 7, 0, 0, 12, 3, transactional_id="bookings")


class Released:
    """A namespace that is released with a transaction open in it; nothing else is known of it."""

    def __init__(self, _: object) -> None:
        self.namespaces = self

    def cluster(self, _: str) -> Released:
        """Its cluster."""
        return self

    def update(self, namespace: Namespace, **_: object) -> NamespaceReport:
        """It is reserved no more."""
        return NamespaceReport(cluster="west", namespace=namespace, registers=(), members=(), aborted=(OPEN,))

    def relax(self, namespace: Namespace, **_: object) -> NamespaceReport:
        """It has no rules."""
        return NamespaceReport(cluster="west", namespace=namespace, registers=(), members=())


def test_what_was_aborted_is_told_though_rules_are_taken_back_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whose transactions had to end is known from this one answer only."""
    monkeypatch.setattr(cli_namespace, "Fabric", Released)
    file = tmp_path / "isthmus.yaml"
    file.write_text(CONFIGURATION)
    command = ("namespace", "update", "west", "a-", "--no-reserved", "--no-enforce", "--yes", "-c", str(file))
    told = CliRunner().invoke(app, [*command, "-o", "json"])
    assert [each["transactional_id"] for each in json.loads(told.stdout)["aborted"]] == ["bookings"], told.stderr
