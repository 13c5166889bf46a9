"""Positions of groups in a distribution tree, sent as times."""
