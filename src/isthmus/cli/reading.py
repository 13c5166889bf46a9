"""The pages of docs/ in the program, and the states that one of them explains."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import isthmus

_ROOT: Final = Path(isthmus.__file__).parent
_FOLDERS: Final = (_ROOT / "docs", _ROOT.parents[1] / "docs")
"""The folders in an installed package, and in a checkout."""
_STATES: Final = "states"
_NAME: Final = re.compile(r"(?:docs/)?([a-z0-9-]+)(?:\.md)?(?:#.*)?")
_LINK: Final = re.compile(r"\[([^\]]+)\]\([^)]*\)")
_STATE: Final = re.compile(r"[A-Z][A-Z_]+")


class ExplainedState(NamedTuple):
    """A state: the kind of thing that has it, its origin, and who ends it, "" if the page does not name that."""

    of: str
    state: str
    derived_from: str
    ended_by: str


def pages() -> list[str]:
    """Return the names of all pages, without `docs/` and `.md`."""
    return sorted({path.stem for folder in _FOLDERS if folder.is_dir() for path in folder.glob("*.md")})


def page(name: str) -> str | None:
    """Return the text of a page that is named as in hints (`docs/states.md`) or by its bare name, `None` if there is
    none.
    """
    found = _NAME.fullmatch(name)
    paths = () if found is None else (folder / f"{found[1]}.md" for folder in _FOLDERS)
    return next((path.read_text(encoding="utf-8") for path in paths if path.is_file()), None)


def find_explanations(state: str) -> list[ExplainedState]:
    """Return the entries for a state in the page of states, for each kind of thing that has it."""
    return [each for each in _states(page(_STATES) or "") if each.state == state]


def states() -> list[str]:
    """Return the names of all states that the page explains."""
    return sorted({each.state for each in _states(page(_STATES) or "")})


def _states(text: str) -> Iterator[ExplainedState]:
    heading = ""
    for line in text.splitlines():
        if line.startswith("## "):
            heading = line.removeprefix("## ")
        cells = [_LINK.sub(r"\1", cell).replace("`", "").strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("| ") and len(cells) > 1 and _STATE.fullmatch(cells[0]):
            yield ExplainedState(heading, cells[0], cells[1], cells[2] if len(cells) > 2 else "")
