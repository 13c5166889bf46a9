"""The values that a running link consists of. Each has one subject, and changes by events alone. Pure."""
