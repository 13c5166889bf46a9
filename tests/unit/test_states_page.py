"""The page on states and the code name the same ones."""

from __future__ import annotations

import enum
import re
from pathlib import Path

import pytest

from isthmus.groups.positions.carrying import Standing
from isthmus.links.pausing import task_names
from isthmus.model.lane import LaneState
from isthmus.model.links.pair import PairState
from isthmus.model.links.writability import NamespaceState
from isthmus.model.loop import VERIFY_TASK, LoopState
from isthmus.model.state import ControllerState, LinkState

PAGE = (Path(__file__).parents[2] / "docs" / "states.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("heading", "column", "states"),
    [
        ("Links", "state", LinkState),
        ("Links", "controller", ControllerState),
        ("Links", "pair", PairState),
        ("Lanes: partitions and topics", "state", LaneState),
        ("Groups", "standing", Standing),
        ("Namespaces", "state", NamespaceState),
        ("Tasks of a link", "task", LoopState),
    ],
    ids=["links", "controllers", "pairs", "lanes", "groups", "namespaces", "tasks"],
)
def test_every_state_has_a_line(heading: str, column: str, states: type[enum.Enum]) -> None:
    """Each table lists every state there is, once, and no other."""
    section = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    (table,) = re.findall(rf"^\| {column} \|.*?\n((?:\|.*\n?)+)", section, re.MULTILINE)
    listed = re.findall(r"^\| ([A-Z_]+) \|", table, re.MULTILINE)
    assert sorted(listed) == sorted(state.value for state in states)


def test_every_task_has_a_line() -> None:
    """The table of tasks lists every task there is, once, and no other."""
    section = PAGE.split("## Tasks of a link\n")[1].split("\n## ")[0]
    (table,) = re.findall(r"^\| name \|.*?\n((?:\|.*\n?)+)", section, re.MULTILINE)
    listed = [
        name for names in re.findall(r"^\| (`.*?`) \|", table, re.MULTILINE) for name in re.findall(r"`(.*?)`", names)
    ]
    assert sorted(listed) == sorted([*task_names(), VERIFY_TASK])
