"""What a verb that takes its time shows meanwhile."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from isthmus.cli.links import promoting


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_bar_tells_how_many_partitions_are_through(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], is_terminal: bool
) -> None:
    """On a terminal only; each step is told by a line anyway."""
    screen = io.StringIO()
    shown = Console(file=screen, force_terminal=is_terminal, width=80, _environ={"TERM": "xterm"})
    monkeypatch.setattr(promoting, "console", shown)
    with promoting._report_steps() as (begun, progressed):
        begun("waiting for the lanes to end")
        progressed(3, 7)
    assert "waiting for the lanes to end" in capsys.readouterr().err
    assert ("partitions" in screen.getvalue(), "3/7" in screen.getvalue()) == (is_terminal, is_terminal)
