"""One process at a time changes a file."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from isthmus.config.reading.locked import exclusive


def test_a_folder_is_locked_itself(tmp_path: Path) -> None:
    """No file is made for the lock in a folder of the user's; another holder waits until this one has ended."""
    other = os.open(tmp_path, os.O_RDONLY)
    try:
        with exclusive(tmp_path):
            assert not any(tmp_path.iterdir())
            with pytest.raises(BlockingIOError):
                fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(other)
