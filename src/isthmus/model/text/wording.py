"""The format of numbers, of many names and of values in cells of tables, for people."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

UNKNOWN: Final = "unknown"
NOT_APPLICABLE: Final = "-"


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


def format_topic(source_topic: str, target_topic: str) -> str:
    """Format a topic by its name, or by both if they differ."""
    return source_topic if source_topic == target_topic else f"{source_topic} -> {target_topic}"


def format_value(value: object, *, is_quantity: bool) -> str:
    """Format a value for a cell of a table. A quantity has thousands separators, and `None` is an unknown one; anything
    else that is `None` or empty does not apply.
    """
    if value is None:
        return UNKNOWN if is_quantity else NOT_APPLICABLE
    if isinstance(value, bool):
        return "yes" if value else "no"
    if is_number(value) and is_quantity:
        return f"{value:,}"
    if isinstance(value, Mapping):
        text = json.dumps(value, default=str)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(format_value(item, is_quantity=is_quantity) for item in value) or NOT_APPLICABLE
    else:
        text = str(value)
    return printable(text) or NOT_APPLICABLE


def is_number(value: object) -> bool:
    """Whether a value is a number; a truth value is none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def printable(text: str) -> str:
    """Return the text without control characters: a name or a message cannot move the cursor."""
    return "".join(
        " " if c in "\n\t" else c for c in text if c in "\n\t" or not unicodedata.category(c).startswith("C")
    )
