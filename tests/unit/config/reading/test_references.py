"""References to values outside the file."""

from __future__ import annotations

import os
import pty
import sys
from collections.abc import Callable
from pathlib import Path

import keyring
import keyring.backend
import pytest
from keyring.errors import PasswordSetError

from isthmus.config.reading.references import Resolution
from isthmus.config.reading.vaults import ask_password, read_keyring
from isthmus.model.text.reference import FileReference


def resolved(text: str, folder: Path, **environment: str) -> Resolution:
    """The text alone in a document, resolved."""
    return Resolution.of({"key": (text,)}, environment, folder)


def test_environment_variable(tmp_path: Path) -> None:
    """A variable may be a part of a text, and several times."""
    resolution = resolved("${env:HOST}:${env:PORT}", tmp_path, HOST="east", PORT="9092")

    assert resolution.root == {"key": ("east:9092",)}
    assert resolution.referenced == {("key", 0)}


def test_whole_file_without_its_last_line_end(tmp_path: Path) -> None:
    """A file that holds nothing but a secret usually ends with a line end that is no part of it."""
    (tmp_path / "secret").write_text("s3cret \n", encoding="utf-8")

    assert resolved(f"${{file:{tmp_path}/secret}}", tmp_path).root == {"key": ("s3cret ",)}


def test_relative_file_starts_at_the_folder(tmp_path: Path) -> None:
    """The configuration and its secrets can be moved together."""
    (tmp_path / "secret").write_text("s3cret", encoding="utf-8")

    assert resolved("${file:secret}", tmp_path).root == {"key": ("s3cret",)}


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("password=s3cret", "s3cret"),
        ("  password = s3 cret", "s3 cret"),
        ("password: s3cret", "s3cret"),
        ("password s3cret", "s3cret"),
        ("password=", ""),
        ("password=a=b:c", "a=b:c"),
        (r"password=a\\b\t\u00e9\=", "a\\b\té="),
        (r"pass\u0077ord=x", "x"),
        ("password=s3\\\n    cret", "s3cret"),
        ("# password=no\n!password=no\n\npassword=yes", "yes"),
        ("password=first\npassword=last", "last"),
    ],
)
def test_key_of_a_properties_file(tmp_path: Path, line: str, value: str) -> None:
    """Files are read as Kafka's FileConfigProvider reads them: java.util.Properties."""
    (tmp_path / "secrets.properties").write_text(f"other=1\n{line}\n", encoding="utf-8")

    resolution = resolved("${file:secrets.properties:password}", tmp_path)

    assert (resolution.problems, resolution.root) == ([], {"key": (value,)})


def test_escaped_dollar(tmp_path: Path) -> None:
    """Two dollars before a brace stand for one; other dollars stay as they are."""
    resolution = resolved("$${env:A} $5 $$", tmp_path)

    assert resolution.root == {"key": ("${env:A} $5 $$",)}
    assert resolution.referenced == set()


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("${env:NOPE}", "NOPE"),
        ("${file:nope}", "nope"),
        ("${file:some.properties:nope}", "nope"),
        ("${vault:nope}", "${vault:nope}"),
        ("${nope}", "${nope}"),
        ("${env:}", "${env:}"),
        ("${file:}", "${file:}"),
    ],
)
def test_reference_that_leads_nowhere_is_named(tmp_path: Path, text: str, names: str) -> None:
    """What is missing is told by name; what the file holds besides is not."""
    (tmp_path / "some.properties").write_text("other=s3cret\n", encoding="utf-8")

    (problem,) = resolved(text, tmp_path).problems

    assert problem.path == ("key", 0)
    assert names in problem.message
    assert problem.hint
    assert "s3cret" not in problem.message + problem.hint


def test_what_is_found_is_not_resolved_again(tmp_path: Path) -> None:
    """A secret that looks like a reference is a secret."""
    assert resolved("${env:A}", tmp_path, A="${env:B}").root == {"key": ("${env:B}",)}


def test_file_of_a_folder(tmp_path: Path) -> None:
    """As Kubernetes mounts a secret, and read again when it is rotated."""
    (tmp_path / "password").write_text("s3cret\n", encoding="utf-8")

    resolution = resolved(f"${{dir:{tmp_path}:password}}", tmp_path)

    assert resolution.root == {"key": ("s3cret",)}
    assert FileReference(str(tmp_path / "password")) in resolution.origins["key", 0]
    (problem,) = resolved(f"${{dir:{tmp_path}:nope}}", tmp_path).problems
    assert f"{tmp_path}/nope" in problem.message


def test_typed_on_a_terminal(tmp_path: Path) -> None:
    """A person is asked once, unseen; where there is no terminal the reference leads nowhere."""
    ask_password.cache_clear()
    (problem,) = resolved("${prompt:Password of east}", tmp_path).problems
    assert "no terminal" in problem.message
    program = (
        "import pathlib, sys\n"
        "from isthmus.config.reading.references import Resolution\n"
        "found = [Resolution.of({'a': '${prompt:Password of east}'}, {}, pathlib.Path()).root['a'] for _ in 'ab']\n"
        "assert found == ['s3cret', 's3cret'], 'not what was typed'\n"
    )
    shown: list[bytes] = []

    def read(fd: int) -> bytes:
        data = os.read(fd, 1024)
        if b"east" in data:
            os.write(fd, b"s3cret\n")
        shown.append(data)
        return data

    assert pty.spawn([sys.executable, "-c", program], read) == 0
    assert b"s3cret" not in b"".join(shown)


def test_kept_in_a_keyring(tmp_path: Path) -> None:
    """The system's keyring gives what it keeps, by service and user; what it lacks is named."""
    # Its own constructor has no types.
    drawer: Callable[[], keyring.backend.KeyringBackend] = _Drawer
    keyring.set_keyring(drawer())
    read_keyring.cache_clear()

    assert resolved("${keyring:isthmus:ada}", tmp_path).root == {"key": ("s3cret",)}
    (problem,) = resolved("${keyring:isthmus:bob}", tmp_path).problems
    assert "bob" in problem.message
    assert "keyring set isthmus bob" in problem.hint


class _Drawer(keyring.backend.KeyringBackend):
    """Keeps one secret."""

    priority = 1

    def get_password(self, service: str, username: str) -> str | None:
        return "s3cret" if (service, username) == ("isthmus", "ada") else None

    def set_password(self, service: str, username: str, password: str) -> None:
        raise PasswordSetError("this one holds what it holds")
