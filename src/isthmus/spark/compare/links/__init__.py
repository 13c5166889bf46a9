"""Proof that two logs are equal, or where they are not: `verify` and the values it returns."""

from __future__ import annotations

from isthmus.model.links.verdict import Discrepancy, DiscrepancyKind, PartitionVerdict, TopicVerdict, Verdict
from isthmus.spark.compare.links.generations import LinkTransforms
from isthmus.spark.compare.links.job import verify
from isthmus.spark.compare.watch import OnVerified

__all__ = [
    "Discrepancy",
    "DiscrepancyKind",
    "LinkTransforms",
    "OnVerified",
    "PartitionVerdict",
    "TopicVerdict",
    "Verdict",
    "verify",
]
