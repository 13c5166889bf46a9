"""What of a namespace can be changed, and who is kept where access rules close it."""

from __future__ import annotations

from inspect import signature
from pathlib import Path

import pytest
from pydantic import ValidationError
from typer.testing import CliRunner

from isthmus import config
from isthmus.cli.app import app
from isthmus.control.clusters.namespaces import AsyncNamespaces
from isthmus.errors import ConfigError
from isthmus.web.bodies import NamespaceChangeBody
from isthmus.web.tokens import Role
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
