"""Isthmus side by side with MirrorMaker 2 and with what the brokers can take at most."""
