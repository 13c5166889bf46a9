"""Leases: lanes that one task of Spark runs for a term, and the driver that follows them."""
