"""Configurations of other tools, converted into the configuration file."""
