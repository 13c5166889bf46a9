"""Logs compared as DataFrames."""
