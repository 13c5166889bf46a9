"""The log of a partition: where it begins and ends, read and appended to."""
