"""The map: the places of clusters and of the links between them. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

_BOX: Final = (150.0, 46.0)
_MARGIN: Final = 24.0
_BETWEEN: Final = 340.0
"""The distance between two clusters, and about that between neighbours on a ring."""
_BULGE: Final = 46.0
_LABEL: Final = 17.0


class Point(NamedTuple):
    """A place on the map."""

    x: float
    y: float


@dataclass(frozen=True, slots=True)
class DrawnCluster:
    """A cluster; `x` and `y` are the middle of its box."""

    cluster: str
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class DrawnLink:
    """A link: a curve as SVG has it, and the place of its label."""

    link: str
    path: str
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class Atlas:
    """The whole map with its size."""

    width: float
    height: float
    places: tuple[DrawnCluster, ...]
    roads: tuple[DrawnLink, ...]
    box: tuple[float, float] = _BOX


def draw(clusters: Iterable[str], links: Iterable[tuple[str, str, str]]) -> Atlas:
    """Draw the map of these clusters and links (name, source, target): two side by side, more of them on a ring."""
    names = list(dict.fromkeys(clusters))
    links = [each for each in links if each[1] in names and each[2] in names]
    beside = Counter(frozenset(each[1:]) for each in links)
    widest = max(beside.values(), default=1)
    places = _places(names, spread=_BULGE * ((widest + 1) // 2) + _LABEL)
    seen: Counter[frozenset[str]] = Counter()
    roads = []
    for link, source, target in links:
        pair = frozenset((source, target))
        seen[pair] += 1
        roads.append(_road(link, places[source], places[target], seen[pair]))
    return Atlas(
        width=max((each.x for each in places.values()), default=0.0) + _BOX[0] / 2 + _MARGIN,
        height=max((each.y for each in places.values()), default=0.0)
        + max(_BOX[1] / 2, _BULGE * ((widest + 1) // 2) + _LABEL if len(names) == 2 else 0.0)
        + _MARGIN,
        places=tuple(DrawnCluster(name, *place) for name, place in places.items()),
        roads=tuple(roads),
    )


def _places(names: list[str], spread: float) -> Mapping[str, Point]:
    left, top = _BOX[0] / 2 + _MARGIN, _BOX[1] / 2 + _MARGIN
    if len(names) <= 2:
        top = max(top, spread + _MARGIN) if len(names) == 2 else top
        return {name: Point(left + number * _BETWEEN, top) for number, name in enumerate(names)}
    radius_y = max(140.0, _BETWEEN * len(names) / (2 * math.pi) * 0.7)
    radius_x = max(240.0, radius_y * 1.5)
    turns = [math.tau * number / len(names) - math.pi / 2 for number in range(len(names))]
    return {
        name: Point(round(left + radius_x * (1 + math.cos(turn)), 1), round(top + radius_y * (1 + math.sin(turn)), 1))
        for name, turn in zip(names, turns, strict=True)
    }


def _road(link: str, source: Point, target: Point, number: int) -> DrawnLink:
    """Place the links of a pair side by side: every other one on the other side, each further out."""
    dx, dy = target.x - source.x, target.y - source.y
    length = math.hypot(dx, dy) or 1.0
    # Perpendicular to a line whose direction does not depend on which end is the source.
    side = 1 if (source.x, source.y) <= (target.x, target.y) else -1
    away = Point(side * dy / length, -side * dx / length)
    bulge = _BULGE * ((number + 1) // 2) * (1 if number % 2 else -1)
    half = Point((source.x + target.x) / 2, (source.y + target.y) / 2)
    control = Point(half.x + away.x * bulge * 2, half.y + away.y * bulge * 2)
    begin, end = _edge(source, control), _edge(target, control)
    return DrawnLink(
        link=link,
        path=f"M{begin.x:.1f} {begin.y:.1f}Q{control.x:.1f} {control.y:.1f} {end.x:.1f} {end.y:.1f}",
        x=round(half.x + away.x * bulge * 1.1, 1),
        y=round(half.y + away.y * bulge * 1.1, 1),
    )


def _edge(box: Point, towards: Point) -> Point:
    """Return the point where the line from the middle of a box leaves it."""
    dx, dy = towards.x - box.x, towards.y - box.y
    if not dx and not dy:
        return box
    scale = min(
        (_BOX[0] / 2 + 4) / abs(dx) if dx else math.inf,
        (_BOX[1] / 2 + 4) / abs(dy) if dy else math.inf,
    )
    return Point(box.x + dx * scale, box.y + dy * scale)
