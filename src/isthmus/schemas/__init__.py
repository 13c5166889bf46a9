"""Schema registries, and the distribution of the primary one's content to all others."""
