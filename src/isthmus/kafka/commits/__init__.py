"""The commits of a cluster's groups as they happen: from the log of commits itself, or by polling."""
