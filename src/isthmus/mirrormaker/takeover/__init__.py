"""Lanes that begin where MirrorMaker 2 stopped: no record is copied twice, and none is lost."""
