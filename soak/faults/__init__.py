"""What is done to clusters, networks and processes: one small generator for each fault."""

from soak.faults import (
    addresses,
    brokers,
    elections,
    groups,
    ledger,
    limits,
    logs,
    processes,
    roads,
    strangers,
    transactions,
)

__all__ = [
    "addresses",
    "brokers",
    "elections",
    "groups",
    "ledger",
    "limits",
    "logs",
    "processes",
    "roads",
    "strangers",
    "transactions",
]
