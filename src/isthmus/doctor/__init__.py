"""Examinations before something is used or declared: everything that a configuration needs."""
