"""The values that a running link consists of. Each has one subject, takes events, and assigned by nobody else. Pure."""
