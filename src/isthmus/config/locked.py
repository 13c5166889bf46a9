"""Files that several processes may change at once: each is read, changed and written by one at a time."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold the lock of a folder, or the lock file `path`, which is made if need be, after any other process that holds
    it; it ends with its holder. What is guarded is no lock itself, as it is replaced by another file when it changes.

    :raises OSError: It cannot be made or opened.
    """
    is_folder = path.is_dir()
    if not is_folder:
        path.parent.mkdir(parents=True, exist_ok=True)
    number = os.open(path, os.O_RDONLY if is_folder else os.O_RDONLY | os.O_CREAT, 0o644)
    try:
        fcntl.flock(number, fcntl.LOCK_EX)
        yield
    finally:
        os.close(number)
