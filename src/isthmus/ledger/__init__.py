"""The ledger, the memory of Isthmus: documents in a compacted topic of the target cluster."""
