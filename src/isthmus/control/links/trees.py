"""What of distribution trees is not distributed yet: refused, rather than left out."""

from __future__ import annotations

from collections.abc import Sequence

from isthmus.errors import PlanRefused
from isthmus.model.link import Link


def mirrors(links: Sequence[Link]) -> Sequence[Link]:
    """The links, if none of them is a distributor.

    :raises PlanRefused: One is: its target has more than its source, and its source more than it copies.
    """
    for link in links:
        if link.tree:
            raise PlanRefused(
                f"link {link.name} distributes for tree {link.tree}, and only mirrors can be compared yet",
                hint="Name a link that mirrors: --link NAME.",
            )
    return links
