"""The pages: every link, file, test, module, command and target of make that a page names exists."""

from __future__ import annotations

import importlib
import json
import re
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs").rglob("*.md"))]
TREE: Any = json.loads((ROOT / "src" / "isthmus" / "cli" / "tree.json").read_text(encoding="utf-8"))
FOLDERS = ("bench", "demo", "deploy", "docs", "examples", "house", "requirements", "soak", "src", "testing", "tests")
ELSEWHERE = {
    "connect-mirror-maker.sh",
    "isthmus.yaml",
    "kafka-transactions.sh",
    "plan.json",
    "tokens.json",
    "/v1/openapi.json",
}
"""Files of Kafka, of users and of the REST API."""
HEADERS = "kind link offset partition producer replayed cluster topic transform reason furthest"
OTHER_NAMES = {f"isthmus.{name}" for name in ("audit", *HEADERS.split())}
"""A logger, and headers of records, which look like names in Python."""
INLINE = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\[[^\]]*\]\((?![a-z]+:)([^)\s#]*)#?([^)\s]*)\)")
HEADING = re.compile(r"^#+ (.+)$", re.M)
FILE = re.compile(r"(?<![\w*<>{}/.-])/?[\w.-][\w./-]*\.(?:py|md|json|ya?ml|toml|sh|java)(?![\w*<>{}-])")
TEST = re.compile(r"([\w./-]+\.py)::(test_\w+)")
DOTTED = re.compile(r"(?<![\w.-])isthmus(?:\.[a-z]\w*)*\.[A-Za-z]\w*(?=[(`,\s]|$)")
TYPED = re.compile(r"^isthmus (?!-)([a-z].*)$|`isthmus (?!-)([a-z][^`\n]*)`", re.M)
MADE = re.compile(r"`make ([a-z][\w-]*)")


def anchor_of(heading: str) -> str:
    """The anchor that a heading gets."""
    words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
    return re.sub(r"[^\w -]", "", words).replace(" ", "-")


@cache
def files() -> tuple[str, ...]:
    """All files of the repository that a page can name."""
    found = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.is_file()]
    return tuple("/" + path.relative_to(ROOT).as_posix() for path in [*found, *ROOT.glob("*.*")])


def is_here(name: str) -> bool:
    """Whether a file has this path, or ends with it."""
    return name in ELSEWHERE or any(file.endswith("/" + name) for file in files())


def is_attribute(name: str) -> bool:
    """Whether a dotted name is a module of Isthmus, or something in one."""
    module: Any = importlib.import_module("isthmus")
    for part in name.split(".")[1:]:
        if isinstance(module, ModuleType) and not hasattr(module, part):
            try:
                importlib.import_module(f"{module.__name__}.{part}")
            except ImportError:
                return False
        if not hasattr(module, part):
            return False
        module = getattr(module, part)
    return True


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    """To a file, and to a heading of it."""
    for path, anchor in LINK.findall(page.read_text(encoding="utf-8")):
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), path
        if anchor:
            assert anchor in map(anchor_of, HEADING.findall(target.read_text(encoding="utf-8"))), f"{path}#{anchor}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_and_every_test_that_is_named_exists(page: Path) -> None:
    """A file by the end of its path, a test by its function."""
    named = INLINE.findall(page.read_text(encoding="utf-8"))
    assert [file for name in named for file in FILE.findall(name) if not is_here(file)] == []
    for path, test in (found for name in named for found in TEST.findall(name)):
        assert f"def {test}(" in (ROOT / path).read_text(encoding="utf-8"), f"{path}::{test}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_name_in_python_exists(page: Path) -> None:
    """Modules, classes and functions by their dotted names."""
    named = [name for code in INLINE.findall(page.read_text(encoding="utf-8")) for name in DOTTED.findall(code)]
    assert [name for name in named if name not in OTHER_NAMES | ELSEWHERE and not is_attribute(name)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_exists(page: Path) -> None:
    """Commands of Isthmus in blocks and sentences, and targets of make."""
    text = page.read_text(encoding="utf-8")
    for line in ("".join(found) for found in TYPED.findall(text)):
        command = TREE
        for word in line.split():
            if not command["commands"] or word.startswith(("-", "[", "#")) or word == "...":
                break
            for name in word.rstrip(",").split("/"):
                assert name in command["commands"], line
            command = command["commands"][word.rstrip(",").split("/")[0]]
    made = MADE.findall(text)
    targets = re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    assert [target for target in made if target not in targets] == []
