"""Hints of our errors, shown where Spark shows an error of a data source: as a traceback in text, which has notes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from isthmus.errors import IsthmusError


@contextmanager
def showing_hints() -> Iterator[None]:
    """Add the hint of an error to its traceback: Spark passes on nothing else of it. Also a decorator."""
    try:
        yield
    except IsthmusError as error:
        if error.hint and error.hint not in getattr(error, "__notes__", ()):
            error.add_note(error.hint)
        raise
