"""Frames between clients and brokers: what is read in them, changed and refused. Pure: bytes in, bytes out."""
