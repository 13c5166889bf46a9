"""What of distribution trees is not distributed yet: refused, rather than left out."""

from __future__ import annotations

from isthmus.errors import PlanRefused
from isthmus.model.configuration import Configuration


def check_trees(configuration: Configuration) -> None:
    """Whether all trees of the file can be run.

    :raises PlanRefused: One wants its flags in headers, or has groups.
    """
    for settings in configuration.trees:
        name = settings.tree.name
        if settings.flags == "header":
            raise PlanRefused(
                f"tree {name} keeps copy flags in headers of records, and that cannot be run yet",
                hint="Leave out flags: they are kept in producer ids then, which costs nothing.",
            )
        if settings.groups:
            raise PlanRefused(
                f"tree {name} has groups, and their positions are not distributed yet",
                hint="Leave groups out of the tree.",
            )
