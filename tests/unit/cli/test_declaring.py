"""What is declared, as commands take it and show it."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from isthmus.cli.app import app
from isthmus.cli.saying import show_said
from isthmus.memory.declared import DeclaredLink
from isthmus.model.links.declaration import SOURCE, TARGET, Declaration
from isthmus.model.registers import Register


@pytest.mark.parametrize("command", [("link", "update", "orders"), ("tree", "update", "flights")])
def test_what_is_both_set_and_unset_is_refused(command: tuple[str, ...]) -> None:
    """Neither wins in silence: the key is named, before any cluster is asked."""
    twice = ("--set", "topics_interval_s=3", "--set", "on_data_gap=stop", "--unset", "topics_interval_s")
    told = CliRunner().invoke(app, [*command, *twice])
    assert told.exit_code == 2
    assert "topics_interval_s is both set and unset" in told.stderr


def test_what_was_said_is_shown_with_by_whom_and_where(capsys: pytest.CaptureFixture[str]) -> None:
    """Under the name that the link has for the cluster; one that it does not know by its id."""
    said = {SOURCE: "S", TARGET: "T", "mode": "elsewhere"}
    registers = tuple(
        Register(
            name=name,
            value=json.dumps({"cluster_id": where, "alias": {"S": "east", "T": "west"}.get(where, "")}),
            version=1,
            at_ms=5,
            by="anna",
            where=where,
        )
        for name, where in said.items()
    )
    show_said(DeclaredLink(declaration=Declaration(name="l", registers=registers)), str, dry_run=False)
    rows = {line.split()[0]: line.split()[-1] for line in capsys.readouterr().out.splitlines() if "anna" in line}
    assert rows == {SOURCE: "east", TARGET: "west", "mode": "elsewhere"}
