"""Configurations of topics, kept alike."""
