"""The source as it is read: modules with their text, syntax and imports."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
FOLDERS: Final = ("src", "tests", "testing", "bench", "demo", "soak", "docs", "house")
PRODUCT: Final = "src"

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Module:
    """One Python file.

    Attributes:
        path: Relative to the repository.
    """

    path: Path

    @cached_property
    def text(self) -> str:
        """The file as it is."""
        return (ROOT / self.path).read_text(encoding="utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        """Its syntax."""
        return ast.parse(self.text, filename=str(self.path))

    @cached_property
    def lines(self) -> int:
        """How many lines it has."""
        return len(self.text.splitlines())

    @property
    def name(self) -> str:
        """What imports call it: `isthmus.engine.engine`."""
        parts = self.path.with_suffix("").parts
        parts = parts[1:] if parts[0] == PRODUCT else parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @property
    def functions(self) -> Iterator[Function]:
        """All functions and methods, nested ones too."""
        return (node for node in ast.walk(self.tree) if isinstance(node, Function))

    @property
    def imports(self) -> Iterator[str]:
        """What it imports, as dotted names: of `from a.b import c` both `a.b` and `a.b.c`, as c may be a module.

        What only type checkers see counts too: a reader has to know it.
        """
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                yield node.module
                yield from (f"{node.module}.{alias.name}" for alias in node.names)


def read_modules(*folders: str) -> list[Module]:
    """Every Python file below these folders, tracked or about to be; of the whole repository by default."""
    found = (path for folder in folders or FOLDERS for path in (ROOT / folder).rglob("*.py"))
    return [_read_module(path.relative_to(ROOT)) for path in sorted(found)]


# Each rule looks at all files: they are parsed once.
_read_module = cache(Module)
