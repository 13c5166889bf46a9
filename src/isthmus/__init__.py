"""Isthmus: Kafka topics alike in many clusters."""

from __future__ import annotations

__version__ = "0.1.0"
