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
    from isthmus.control.async_fabric import AsyncFabric
    from isthmus.control.fabric import Fabric
    from isthmus.control.fabric import open_fabric as open  # noqa: A004 - isthmus.open reads like pathlib's
    from isthmus.control.running.outcome import RunOutcome
    from isthmus.control.topics.plan import Plan
    from isthmus.errors import IsthmusError
    from isthmus.model.progress import LinkProgress

__version__ = "0.1.0"
__all__ = [
    "AsyncFabric",
    "Fabric",
    "IsthmusError",
    "LinkProgress",
    "Plan",
    "RunOutcome",
    "__version__",
    "open",
    "spark",
]

_HOMES: Final = {
    "AsyncFabric": ("isthmus.control.async_fabric", "AsyncFabric"),
    "Fabric": ("isthmus.control.fabric", "Fabric"),
    "IsthmusError": ("isthmus.errors", "IsthmusError"),
    "LinkProgress": ("isthmus.model.progress", "LinkProgress"),
    "Plan": ("isthmus.control.topics.plan", "Plan"),
    "RunOutcome": ("isthmus.control.running.outcome", "RunOutcome"),
    "open": ("isthmus.control.fabric", "open_fabric"),
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
