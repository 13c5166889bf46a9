"""How numbers are written in what people read."""

from __future__ import annotations


def counted(count: float, noun: str, plural: str | None = None) -> str:
    """A number of things: `1 topic`, `1,200 records`, `2.5 days`, `0.042 days`.

    `plural` is what follows any number but 1, and by default the noun with an s; with it a verb can agree as well:
    `counted(count, "partition is", "partitions are")`.
    """
    if isinstance(count, int):
        shown = f"{count:,}"
    else:
        shown = f"{count:,.1f}".removesuffix(".0") if abs(count) >= 1 else f"{count:.2g}"
    return f"{shown} {noun if shown == '1' else plural or f'{noun}s'}"
