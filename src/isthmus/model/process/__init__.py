"""A process: where it runs, at what it listens, how long it waits, what it reports."""
