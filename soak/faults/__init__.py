"""What is done to clusters, networks and processes: one small generator for each fault."""

from soak.faults import (
    addresses,
    brokers,
    elections,
    groups,
    healing,
    leaves,
    ledger,
    limits,
    logs,
    processes,
    roads,
    strangers,
    transactions,
)
from soak.faults.catalogue import FAULTS

__all__ = [
    "FAULTS",
    "addresses",
    "brokers",
    "elections",
    "groups",
    "healing",
    "leaves",
    "ledger",
    "limits",
    "logs",
    "processes",
    "roads",
    "strangers",
    "transactions",
]
