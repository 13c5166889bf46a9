"""Real Kafka clusters as child processes: for tests, for the demo, and for experiments."""

from __future__ import annotations

from isthmus.local.broker import BrokerStatus, LocalBroker
from isthmus.local.cluster import ClusterStatus, LocalCluster, status

__all__ = ["BrokerStatus", "ClusterStatus", "LocalBroker", "LocalCluster", "status"]
