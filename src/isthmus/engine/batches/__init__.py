"""Batches taken apart, put together, and waiting."""
