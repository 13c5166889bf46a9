"""A distribution tree drawn as SVG: clusters in a row, levels above them, arrows from cluster to cluster below."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Final

from isthmus.model.text.wording import format_count
from isthmus.model.trees.tree import Tree, TreeNode, leaves_of

_COLUMN: Final = 140
_ROW: Final = 70
_MARGIN: Final = 20
_BOX: Final = (104, 34)
_NEAR: Final = (0.104, 0.48)
"""The point of a curve at a fifth of its way: along, and down."""
_INK: Final = 'fill="none" stroke="currentColor" font-family="sans-serif" font-size="13"'
_TEXT: Final = 'fill="currentColor" stroke="none" text-anchor="middle" dominant-baseline="middle"'
_FAINT: Final = 'stroke-opacity=".6"'
"""As attributes: a style within would be refused where a page's policy allows only files of styles."""


def svg_of(tree: Tree, copied: Mapping[str, int] | None = None) -> str:
    """Return the drawing, with the number of records that each distributor has copied, by its name, if given.

    It takes its colour from the page around it, so that it can be read on light and on dark.
    """
    columns = {cluster: index for index, cluster in enumerate(tree.clusters)}
    depth = _depth(tree.root)
    below = max((each.level for each in tree.distributors), default=1)
    width = _MARGIN * 2 + _COLUMN * len(columns)
    height = _MARGIN * 2 + _ROW * (depth + 1) + 24 * below
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" {_INK}>',
        f"<title>{escape(tree.name)}</title>",
        '<defs><marker id="to" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0 0L8 4L0 8"/></marker></defs>',
        *_node(tree.root, columns, 0, depth),
    ]
    parts += [_box(_x(index), _y(depth), cluster) for cluster, index in columns.items()]
    floor = _y(depth) + _BOX[1] / 2
    for each in tree.distributors:
        begin, end = _x(columns[each.cluster]), _x(columns[each.target])
        dip = floor + 22 * each.level
        count, note = (copied or {}).get(each.name), ""
        if count is not None:
            note = f", {format_count(count, 'message')}"
            # Near the cluster that it comes from: the opposite link has the other end.
            x, y = begin + (end - begin) * _NEAR[0], floor + (dip - floor) * _NEAR[1]
            parts.append(f'<text font-size="11" {_TEXT} x="{x:.0f}" y="{y + 9:.0f}">{count:,}</text>')
        parts.append(
            f'<path d="M{begin} {floor}C{begin} {dip},{end} {dip},{end} {floor}" marker-end="url(#to)" {_FAINT}>'
            f"<title>{escape(each.name)}: level {each.level} to {escape(each.target)}{note}</title></path>"
        )
    return "\n".join([*parts, "</svg>", ""])


def _node(node: TreeNode, columns: dict[str, int], row: int, last_row: int) -> list[str]:
    x, y = _middle(node, columns), _y(row)
    parts: list[str] = []
    for child in node.children:
        depth = row + 1 if isinstance(child, TreeNode) else last_row
        end = _y(depth) - _BOX[1] / 2
        parts.append(f'<line x1="{x}" y1="{y + _BOX[1] / 2}" x2="{_middle(child, columns)}" y2="{end}" {_FAINT}/>')
        if isinstance(child, TreeNode):
            parts += _node(child, columns, row + 1, last_row)
    return [*parts, f'<g stroke-dasharray="4 3">{_box(x, y, f"level {node.level}")}</g>']


def _box(x: float, y: float, text: str) -> str:
    width, height = _BOX
    box = f'<rect x="{x - width / 2}" y="{y - height / 2}" width="{width}" height="{height}" rx="4"/>'
    return f'{box}<text {_TEXT} x="{x}" y="{y}">{escape(text)}</text>'


def _depth(node: TreeNode) -> int:
    return 1 + max((_depth(child) for child in node.children if isinstance(child, TreeNode)), default=0)


def _middle(node: TreeNode | str, columns: dict[str, int]) -> float:
    found = [_x(columns[leaf]) for leaf in leaves_of(node)]
    return sum(found) / len(found)


def _x(column: int) -> float:
    return _MARGIN + _COLUMN * (column + 0.5)


def _y(row: int) -> float:
    return _MARGIN + _ROW * (row + 0.5)
