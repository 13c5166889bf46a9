"""Schemas of the primary registry in all others."""
