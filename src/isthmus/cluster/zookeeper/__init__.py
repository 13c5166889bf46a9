"""The registry of clusters that keep it in ZooKeeper: nodes as values, read and watched, never written."""
