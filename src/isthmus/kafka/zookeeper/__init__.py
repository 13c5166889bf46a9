"""The registry of clusters with ZooKeeper: nodes as values, read and watched, never written."""
