"""Trees of a given shape."""

from __future__ import annotations

import random
from typing import Any


def shaped(chance: random.Random, clusters: list[str]) -> Any:
    """A random nesting of clusters, with two to four parts to a node, and levels that are sometimes stated."""
    if len(clusters) == 1:
        return clusters[0]
    parts = min(chance.choice([2, 2, 2, 3, 4]), len(clusters))
    cuts = sorted(chance.sample(range(1, len(clusters)), parts - 1))
    return [shaped(chance, clusters[begin:end]) for begin, end in zip([0, *cuts], [*cuts, len(clusters)], strict=True)]
