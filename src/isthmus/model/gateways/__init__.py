"""Gateways and the synchronous links before them, as values."""
