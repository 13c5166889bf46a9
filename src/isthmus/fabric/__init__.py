"""The public Python API: a configuration opened, and its verbs."""
