"""Copies of positions on the command line: how it ends where some cannot be read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from isthmus.cli.groups import app
from isthmus.control.answers import KEY_BYTES
from isthmus.control.clusters.administration import AsyncAdministration
from isthmus.control.clusters.copies import CopiedCommit

CONFIGURATION = 'clusters: {west: {bootstrap_servers: "127.0.0.1:1"}}\n'
CLOSED = CopiedCommit(
    source_id="E", group="billing", topic="orders", partition=0, is_encrypted=True, committed=None,
    copied_at_ms=0, link="east-west",
)  # fmt: skip


def test_a_key_that_opens_nothing_is_something_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not a difference of two sides, which has a code of its own; without a key nothing was to be opened."""

    async def copied(_: AsyncAdministration, **__: Any) -> tuple[CopiedCommit]:
        return (CLOSED,)

    monkeypatch.setattr(AsyncAdministration, "copied_commits", copied)
    (tmp_path / "isthmus.yaml").write_text(CONFIGURATION)
    (tmp_path / "billing.key").write_text("ab" * KEY_BYTES)
    asking = ["copy", "west", "--group", "billing", "-c", str(tmp_path / "isthmus.yaml"), "-o", "json"]

    found = CliRunner().invoke(app, asking)
    assert (found.exit_code, json.loads(found.stdout)[0]["readable"]) == (0, False), found.output
    closed = CliRunner().invoke(app, [*asking, "--key-file", str(tmp_path / "billing.key")])
    assert (closed.exit_code, json.loads(closed.stdout)[0]["readable"]) == (1, False), closed.output
