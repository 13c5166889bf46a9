"""The guides: what they have people type is a command, with options that it has."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
GUIDES = sorted((ROOT / "docs").glob("guide-*.md"))
TREE: Any = json.loads((ROOT / "src" / "isthmus" / "cli" / "tree.json").read_text(encoding="utf-8"))
TYPED = re.compile(r"^isthmus (.+)$|`isthmus ([^`\n]+)`", re.M)
"""A line of a block, or words in a sentence."""


@pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: guide.name)
def test_what_a_guide_has_people_type_is_a_command(guide: Path) -> None:
    """In its blocks and in its sentences."""
    typed = ["".join(found) for found in TYPED.findall(guide.read_text(encoding="utf-8"))]
    assert typed
    for line in typed:
        command, words = TREE, shlex.split(line)
        while command["commands"] and words:
            name = words.pop(0)
            assert name in command["commands"], line
            command = command["commands"][name]
        options = {word for word in words if word.startswith("-")}
        assert options <= command["options"].keys(), line


def test_a_guide_that_moves_members_of_groups_has_the_link_carry_groups() -> None:
    """Else the move is refused, as consumers would begin anew at the other cluster."""
    text = (ROOT / "docs" / "guide-move.md").read_text(encoding="utf-8")
    assert "--group-map" in next(line for line in text.splitlines() if line.startswith("isthmus link create"))
