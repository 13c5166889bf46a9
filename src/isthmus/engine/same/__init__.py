"""Identity lanes: their records keep their offsets, so the end of the target's log is their place."""
