"""The operator who gives commands in this process."""

from __future__ import annotations

import contextlib
import getpass
import socket
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Final

_author: Final[ContextVar[str]] = ContextVar("author", default="")


@contextlib.contextmanager
def acting_as(author: str) -> Iterator[None]:
    """Let `operator` return this author meanwhile, in this task: the user for whom this process acts."""
    before = _author.set(author)
    try:
        yield
    finally:
        _author.reset(before)


def operator() -> str:
    """Return who gives commands here, for people to read."""
    if author := _author.get():
        return author
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        # In a container the user may have no name.
        user = "unknown"
    return f"{user}@{socket.gethostname()}"
