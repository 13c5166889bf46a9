"""Callers of the REST API: their tokens, roles and sessions, and the checks that each request passes."""
