"""A distribution tree of four clusters under faults: everybody writes everywhere, and every message is once on each."""
