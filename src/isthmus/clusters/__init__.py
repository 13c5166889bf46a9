"""Clusters by themselves: described, examined, kept in balance."""
