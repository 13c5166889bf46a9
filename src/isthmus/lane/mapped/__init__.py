"""Lanes whose records get other offsets at the target, next to what others write there."""
