"""Real Kafka clusters as child processes: for tests, the demo, and for trying things out."""

from __future__ import annotations

from isthmus.cluster.local.broker import BrokerStatus, LocalBroker
from isthmus.cluster.local.cluster import ClusterStatus, LocalCluster, status

__all__ = ["BrokerStatus", "ClusterStatus", "LocalBroker", "LocalCluster", "status"]
