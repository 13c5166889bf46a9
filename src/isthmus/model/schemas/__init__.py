"""Schemas and their registries, as values."""
