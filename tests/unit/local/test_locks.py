"""Lock files name every jar of a class path once, with its hash."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import get_args

import pytest

from isthmus.errors import InvariantError
from isthmus.local.locks import LockName, load_lock, parse_lock

HASH = "d3ef575e3e4979678dc01bf1dcce51021493b4d11fb7f1be8ad982877c16a1c0"
LINE = f"org.slf4j:slf4j-api:1.7.36 sha256:{HASH} 41125"


def test_a_line_is_a_jar() -> None:
    """Coordinates, hash and size are read; blank lines and comments are passed over."""
    (jar,) = parse_lock("one", f"# logging\n\n{LINE}\n").jars
    assert (jar.group, jar.artifact, jar.version) == ("org.slf4j", "slf4j-api", "1.7.36")
    assert (jar.sha256, jar.size_bytes) == (HASH, 41125)
    assert jar.path == PurePosixPath("org.slf4j/slf4j-api/1.7.36/slf4j-api-1.7.36.jar")


def test_an_archive_has_a_type_and_a_classifier() -> None:
    """What is no plain jar lies beside it under a name of its own."""
    (archive,) = parse_lock("one", LINE.replace("1.7.36", "1.7.36:tar.gz:all")).jars
    assert archive.path == PurePosixPath("org.slf4j/slf4j-api/1.7.36/slf4j-api-1.7.36-all.tar.gz")


@pytest.mark.parametrize(
    "text",
    [
        "org.slf4j:slf4j-api:1.7.36",
        LINE.replace("sha256:d", "sha256:"),
        LINE.replace("org.slf4j", "../../etc"),
        f"{LINE}\n{LINE}",
    ],
    ids=["no hash", "short hash", "a path", "twice"],
)
def test_a_bad_line_is_refused(text: str) -> None:
    """A malformed line or a jar listed twice is an error that names the line."""
    with pytest.raises(InvariantError, match=r"bad\.lock line"):
        parse_lock("bad", text)


def test_the_digest_follows_contents_and_order() -> None:
    """The digest changes with a hash and with the order, not with comments."""
    other = LINE.replace("slf4j-api:", "slf4j-nop:")
    one = parse_lock("a", f"{LINE}\n{other}").digest
    assert parse_lock("b", f"# the same\n{LINE}\n{other}").digest == one
    assert parse_lock("a", f"{other}\n{LINE}").digest != one
    assert parse_lock("a", LINE.replace("d3ef", "d3ee") + f"\n{other}").digest != one


@pytest.mark.parametrize("name", get_args(LockName))
def test_locks_that_travel_with_the_package(name: LockName) -> None:
    """Each of them can be read and names each artifact of a group once: one version of all."""
    lock = load_lock(name)
    assert len({(jar.group, jar.artifact) for jar in lock.jars}) == len(lock.jars)
    assert len(lock.jars) > 10 or {jar.classifier for jar in lock.jars} == {"all"}
