"""Answers that wait for followers: what a gateway holds for synchronous links."""
