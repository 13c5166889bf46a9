"""The format of numbers and of many names for people."""

from __future__ import annotations

from collections.abc import Iterable


def format_count(count: float, noun: str, plural: str | None = None) -> str:
    """Format a number of things: `1 topic`, `1,200 records`, `2.5 days`, `0.042 days`.

    `plural` follows any number but 1, and is by default the noun with an s; with it a verb can agree as well:
    `counted(count, "partition is", "partitions are")`.
    """
    if isinstance(count, int):
        shown = f"{count:,}"
    else:
        shown = f"{count:,.1f}".removesuffix(".0") if abs(count) >= 1 else f"{count:.2g}"
    return f"{shown} {noun if shown == '1' else plural or f'{noun}s'}"


def which_are(done: str, names: Iterable[str]) -> str:
    """Format all names of a kind as a sentence: `Declared are a, b.`, or `None is declared.`"""
    every = ", ".join(names)
    return f"{done.capitalize()} are {every}." if every else f"None is {done}."


def first_few(names: Iterable[str], most: int = 3) -> str:
    """Format the first of many names, and how many more there are: `a, b, c and 1,200 more`."""
    every = list(names)
    more = f" and {len(every) - most:,} more" if len(every) > most else ""
    return ", ".join(every[:most]) + more
