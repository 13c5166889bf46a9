"""Rows as tables and screens."""
