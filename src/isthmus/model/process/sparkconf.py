"""Properties of Spark with which leases cannot run, and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

SPECULATION: Final = "spark.speculation"
DYNAMIC_ALLOCATION: Final = "spark.dynamicAllocation.enabled"


class PropertyRefusal(NamedTuple):
    """Why a property is refused, behind its name and value, and what to do."""

    message: str
    hint: str


_REFUSED: Final[Mapping[str, PropertyRefusal]] = {
    SPECULATION: PropertyRefusal("would run every lease twice", "Remove it."),
    DYNAMIC_ALLOCATION: PropertyRefusal(
        "cannot follow what partitions need: Spark adds executors for tasks that wait, and takes away those without a "
        "task, but a lease is a task that lasts, with much to copy or nothing",
        "Remove it, and give the application as many executors as it is to have (spark.executor.instances or "
        "spark.cores.max). Those that come or go while links run are followed.",
    ),
}


def refuse_property(name: str, value: str) -> PropertyRefusal | None:
    """Return why leases cannot run with this property, `None` if they can."""
    return _REFUSED.get(name) if value.strip().lower() == "true" else None
