"""Schema registries, and how what the primary one holds gets into all others."""
