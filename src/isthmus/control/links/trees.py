"""What of distribution trees is not distributed yet: refused, rather than left out."""

from __future__ import annotations

from collections.abc import Sequence

from isthmus.errors import PlanRefused
from isthmus.model.configuration import Configuration
from isthmus.model.link import Link


def check_trees(configuration: Configuration) -> None:
    """Whether all trees of the file can be run.

    :raises PlanRefused: One has groups.
    """
    for settings in configuration.trees:
        name = settings.tree.name
        if settings.groups:
            raise PlanRefused(
                f"tree {name} has groups, and their positions are not distributed yet",
                hint="Leave groups out of the tree.",
            )


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
