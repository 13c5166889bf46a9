"""A copy of the positions that groups commit at a source, in a topic of the target (KIP-986)."""
