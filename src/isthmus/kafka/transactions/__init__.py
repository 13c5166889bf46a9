"""Transactions: of ours, and of other producers, found, ended and finished."""
