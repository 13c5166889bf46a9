"""Which folders there are, and which of them import each other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from house.source import Module


def count_files(modules: Iterable[Module]) -> dict[Path, int]:
    """How many Python files lie in each folder itself, its `__init__.py` left out."""
    counts: dict[Path, int] = {}
    for module in modules:
        if module.path.name != "__init__.py":
            counts[module.path.parent] = counts.get(module.path.parent, 0) + 1
    return counts


def find_cycles(modules: Iterable[Module]) -> list[list[str]]:
    """Folders that import each other in a circle, at any level: each circle as the dotted names of its folders.

    The children of one folder are compared with each other: its folders, and its files as one child each.
    Only circles that pass a folder count: files of one folder may know each other.
    """
    arrows = _draw_arrows(list(modules))
    levels: dict[str, dict[str, set[str]]] = {}
    for importer, imported in arrows:
        parent, one, other = _find_siblings(importer, imported)
        if one != other:
            levels.setdefault(parent, {}).setdefault(one, set()).add(other)
            levels[parent].setdefault(other, set())
    packages = {name.rpartition(".")[0] for name, _ in arrows} | {name.rpartition(".")[0] for _, name in arrows}
    circles = (circle for _, graph in sorted(levels.items()) for circle in find_circles(graph))
    return [circle for circle in circles if sum(name in packages for name in circle) > 1]


def _draw_arrows(modules: list[Module]) -> set[tuple[str, str]]:
    """Importer and imported module; an `__init__` that passes names on stands for its folder."""
    names = {module.name for module in modules}
    return {
        (module.name, imported)
        for module in modules
        for imported in module.imports
        if imported in names and imported != module.name and not _is_within(module.name, imported)
    }


def _is_within(name: str, folder: str) -> bool:
    return name.startswith(f"{folder}.") or folder.startswith(f"{name}.")


def _find_siblings(one: str, other: str) -> tuple[str, str, str]:
    """The folder in which the ways to both part, and its two children that lead to them."""
    left, right = one.split("."), other.split(".")
    depth = next(at for at, (a, b) in enumerate(zip(left, right, strict=False)) if a != b)
    return ".".join(left[:depth]), ".".join(left[: depth + 1]), ".".join(right[: depth + 1])


def find_circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """The strongly connected parts of a graph that have more than one node (Tarjan), sorted."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    circles: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in graph[node]:
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            at = stack.index(node)
            circle, stack[at:] = sorted(stack[at:]), []
            if len(circle) > 1:
                circles.append(circle)

    for node in graph:
        if node not in index:
            visit(node)
    return sorted(circles)
