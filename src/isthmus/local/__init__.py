"""Real Kafka clusters as child processes: for tests, the demo, and for trying things out."""

from __future__ import annotations

from isthmus.local.broker import BrokerStatus, LocalBroker
from isthmus.local.cluster import ClusterStatus, LocalCluster, status

__all__ = ["BrokerStatus", "ClusterStatus", "LocalBroker", "LocalCluster", "status"]
