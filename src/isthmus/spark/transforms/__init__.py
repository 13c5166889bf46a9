"""Transforms of records, run by the executors."""
