"""What pages are made of beside what is rendered."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
LOCKED = [
    line.split()
    for line in (ROOT / "requirements" / "browser.lock").read_text().splitlines()
    if not line.startswith("#")
]


@pytest.mark.parametrize("locked", LOCKED, ids=lambda locked: locked[3])
def test_a_file_of_others_is_as_it_was_published(locked: list[str]) -> None:
    """By the hash in the lock; with its licence beside it."""
    _, _, _, path, digest = locked
    file = ROOT / path

    assert hashlib.sha256(file.read_bytes()).hexdigest() == digest
    assert list(file.parent.glob(f"{file.name.split('.')[0]}.LICENSE"))
