"""Namespaces of a cluster (KIP-986): created, closed to others, examined, deleted."""
