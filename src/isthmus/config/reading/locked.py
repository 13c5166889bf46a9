"""Files that several processes may change at once: each is read, changed and written by one at a time."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold the lock of a folder, or the lock file `path`, which is made if needed, after any other process that holds
    it; the lock ends with its holder. The guarded file cannot be the lock, as each change replaces it by another file.

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
