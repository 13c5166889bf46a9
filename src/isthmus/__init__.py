"""Isthmus: Kafka topics alike in many clusters.

import isthmus

with isthmus.open("isthmus.yaml") as fabric:
    fabric.plan()
    fabric.run(until="caught-up")
    fabric.verify()
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from isthmus import spark
    from isthmus.errors import IsthmusError
    from isthmus.fabric.async_fabric import AsyncFabric
    from isthmus.fabric.background import BackgroundRun
    from isthmus.fabric.fabric import Fabric
    from isthmus.fabric.fabric import open_fabric as open  # noqa: A004 - isthmus.open reads like pathlib's
    from isthmus.fabric.status import FabricStatus
    from isthmus.model.links.outcome import RunOutcome
    from isthmus.model.links.progress import LinkProgress
    from isthmus.topics.plan import Plan

__version__ = "0.1.0"
__all__ = [
    "AsyncFabric",
    "BackgroundRun",
    "Fabric",
    "FabricStatus",
    "IsthmusError",
    "LinkProgress",
    "Plan",
    "RunOutcome",
    "__version__",
    "open",
    "spark",
]

_HOMES: Final = {
    "AsyncFabric": ("isthmus.fabric.async_fabric", "AsyncFabric"),
    "BackgroundRun": ("isthmus.fabric.background", "BackgroundRun"),
    "Fabric": ("isthmus.fabric.fabric", "Fabric"),
    "FabricStatus": ("isthmus.fabric.status", "FabricStatus"),
    "IsthmusError": ("isthmus.errors", "IsthmusError"),
    "LinkProgress": ("isthmus.model.links.progress", "LinkProgress"),
    "Plan": ("isthmus.topics.plan", "Plan"),
    "RunOutcome": ("isthmus.model.links.outcome", "RunOutcome"),
    "open": ("isthmus.fabric.fabric", "open_fabric"),
    "spark": ("isthmus.spark", ""),
}


def __getattr__(name: str) -> Any:
    """Load what is asked for (PEP 562): executors import this package and need none of it."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    module, attribute = _HOMES[name]
    home = import_module(module)
    return getattr(home, attribute) if attribute else home


def __dir__() -> list[str]:
    return __all__
