"""Lanes as control sees them: how far they are, whether their logs are still ours, when all is copied."""
