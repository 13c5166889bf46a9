"""Files of the user that several commands may change at once: each is read, changed and written by one at a time."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, which is made if need be; whoever else wants it waits.

    The folder is what is locked, as its files are replaced by others whenever they change.

    :raises OSError: The folder cannot be made or opened.
    """
    folder.mkdir(parents=True, exist_ok=True)
    number = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(number, fcntl.LOCK_EX)
        yield
    finally:
        os.close(number)
