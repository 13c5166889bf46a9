"""The configuration file: one YAML document, checked as a whole, turned into the model's values."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from isthmus.config.reading.places import find

if TYPE_CHECKING:
    from isthmus.config.file import load, parse

__all__ = ["find", "load", "parse"]


def __getattr__(name: str) -> Any:
    """Load the modules that read files on demand (PEP 562): completion only has to find them, as fast as possible."""
    if name not in __all__:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    return getattr(import_module("isthmus.config.file"), name)
