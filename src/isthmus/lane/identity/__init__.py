"""Lanes that keep the offsets of their records: the end of the target's log is their place."""
