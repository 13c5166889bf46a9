"""A distribution tree of four clusters: every flight once on each."""
