"""Proof that every record of a distribution tree is once on each of its clusters, in the order of its producer."""

from __future__ import annotations

from isthmus.model.trees.treeverdict import TreeVerdict
from isthmus.spark.compare.trees.job import verify_tree

__all__ = ["TreeVerdict", "verify_tree"]
