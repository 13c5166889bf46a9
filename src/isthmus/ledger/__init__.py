"""What Isthmus remembers: documents in a compacted topic of the target cluster."""
