"""Runs a notebook as a kernel does: python -m testing.runs.notebook NOTEBOOK

All cells in one namespace, in a thread whose event loop is running, and the last value of each cell as HTML. What a
kernel adds (messages, a browser) is not here.
"""

from __future__ import annotations

import ast
import asyncio
import json
import sys
from pathlib import Path
from typing import Any


def cells(path: Path) -> list[str]:
    """The code of a notebook, cell by cell."""
    found = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return ["".join(each["source"]) for each in found if each["cell_type"] == "code"]


def run_cell(code: str, names: dict[str, Any]) -> object:
    """The value of the last expression, `None` if the cell ends otherwise."""
    tree = ast.parse(code)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "<cell>", "exec"), names)  # noqa: S102 - that is what a kernel does
    if not isinstance(last, ast.Expr):
        return None
    return eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)  # noqa: S307 - as before


async def run(path: Path) -> None:
    """Run all cells; what they show is printed, a line each."""
    names: dict[str, Any] = {}
    for code in cells(path):
        value = run_cell(code, names)
        show = getattr(value, "_repr_html_", None)
        if value is not None:
            sys.stdout.write(f"Out: {repr(value) if show is None else show()}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(run(Path(sys.argv[1])))
