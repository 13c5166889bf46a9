"""The configuration file: one YAML document, checked as a whole, turned into the model's values."""

from __future__ import annotations

from isthmus.config.file import find, load, parse

__all__ = ["find", "load", "parse"]
