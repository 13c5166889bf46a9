"""Mapped lanes: their records get other offsets at the target, among those that other producers write there."""
