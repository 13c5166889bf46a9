"""Looks for faults of the data path: random histories on real clusters, held against what a mirror has to keep."""
