"""Settings of what is declared, given and taken back by one command."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from isthmus.cli.app import app


@pytest.mark.parametrize("command", [("link", "update", "orders"), ("tree", "update", "flights")])
def test_what_is_both_set_and_unset_is_refused(command: tuple[str, ...]) -> None:
    """Neither wins in silence: the key is named, before any cluster is asked."""
    twice = ("--set", "topics_interval_s=3", "--set", "on_data_gap=stop", "--unset", "topics_interval_s")
    told = CliRunner().invoke(app, [*command, *twice])
    assert told.exit_code == 2
    assert "topics_interval_s is both set and unset" in told.stderr
