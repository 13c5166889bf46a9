"""Proof that two logs are equal, or where they are not: `verify` and the values it returns."""

from __future__ import annotations

from isthmus.model.verdict import Discrepancy, DiscrepancyKind, PartitionVerdict, TopicVerdict, Verdict
from isthmus.spark.verification.job import verify
from isthmus.spark.verification.watch import OnVerified

__all__ = ["Discrepancy", "DiscrepancyKind", "OnVerified", "PartitionVerdict", "TopicVerdict", "Verdict", "verify"]
