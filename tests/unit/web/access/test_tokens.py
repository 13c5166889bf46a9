"""The file of tokens, which several commands may change at once."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from isthmus.errors import HostError
from isthmus.web.access.tokens import Role, TokenFile

_AT_ONCE = 16


def test_tokens_that_are_created_and_revoked_at_once_are_all_there_or_gone(tmp_path: Path) -> None:
    """None is lost, and none comes back."""
    path = tmp_path / "folder" / "tokens.json"
    for number in range(_AT_ONCE):
        TokenFile(path).create(f"old-{number}", Role.VIEWER)
    begin = threading.Barrier(2 * _AT_ONCE)

    def create(number: int) -> None:
        begin.wait()
        TokenFile(path).create(f"new-{number}", Role.ADMIN)

    def revoke(number: int) -> None:
        begin.wait()
        TokenFile(path).revoke(f"old-{number}")

    threads = [threading.Thread(target=do, args=(number,)) for do in (create, revoke) for number in range(_AT_ONCE)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()

    assert {token.name for token in TokenFile(path).all()} == {f"new-{number}" for number in range(_AT_ONCE)}
    assert [each.name for each in path.parent.iterdir()] == ["tokens.json"]


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    """With another way to go."""
    (tmp_path / "file").write_text("")

    with pytest.raises(HostError, match="cannot be written"):
        TokenFile(tmp_path / "file" / "tokens.json").create("alice", Role.VIEWER)
