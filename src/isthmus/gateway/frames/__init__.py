"""Frames between clients and brokers: what stands in them, and what is changed or refused. Pure: bytes in, bytes out."""
