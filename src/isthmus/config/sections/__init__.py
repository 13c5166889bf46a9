"""The sections of the configuration file: what may stand in each."""
