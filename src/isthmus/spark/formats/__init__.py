"""Keys and values that are decoded by schemas, before Spark's SQL sees them, and written again by the same ones."""
