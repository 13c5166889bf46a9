"""Configurations of other tools, read and turned into the configuration file."""
