"""What is written, and for whom."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from isthmus.errors import ConfigError
from isthmus.interop.files import ThisMachine, read_input, write_all
from isthmus.interop.gathering import Companion

SECRET = Companion("x.secrets/a.password", b"hunter2")


def test_secrets_are_for_their_owner_alone(tmp_path: Path) -> None:
    """The folder, the file, and also one that others could read before."""
    write_all("text", [SECRET], tmp_path / "new" / "x.yaml", force=False)
    secret = tmp_path / "new" / "x.secrets" / "a.password"
    secret.chmod(0o644)

    written = write_all("other", [SECRET], tmp_path / "new" / "x.yaml", force=True)

    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    assert stat.S_IMODE(secret.parent.stat().st_mode) == 0o700
    assert written == (secret, tmp_path / "new" / "x.yaml")
    assert written[1].read_text() == "other"
    assert sorted(path.name for path in (tmp_path / "new").rglob("*")) == ["a.password", "x.secrets", "x.yaml"]


@pytest.mark.parametrize("name", ["x.yaml", "x.secrets/a.password"])
def test_nothing_is_replaced_unasked(tmp_path: Path, name: str) -> None:
    """Neither the configuration nor a file beside it, and nothing is written then."""
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("mine")

    with pytest.raises(ConfigError, match="there already") as caught:
        write_all("text", [SECRET], tmp_path / "x.yaml", force=False)

    assert "--force" in caught.value.hint
    assert (tmp_path / name).read_text() == "mine"


def test_a_link_is_replaced_not_followed(tmp_path: Path) -> None:
    """Whoever puts a link where a secret will be does not get it."""
    (tmp_path / "x.secrets").mkdir()
    (tmp_path / "x.secrets" / "a.password").symlink_to(tmp_path / "elsewhere")

    write_all("text", [SECRET], tmp_path / "x.yaml", force=True)

    assert not (tmp_path / "elsewhere").exists()


def test_what_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    """A folder and a file that is not there are named."""
    with pytest.raises(ConfigError, match="is a folder"):
        read_input(tmp_path)
    with pytest.raises(ConfigError, match="there is no file"):
        read_input(tmp_path / "gone")


def test_what_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    """A file where a folder should be is named."""
    (tmp_path / "file").write_text("")

    with pytest.raises(ConfigError, match="cannot be written"):
        write_all("text", [], tmp_path / "file" / "x.yaml", force=True)


def test_files_are_looked_for_beside_the_input_first(tmp_path: Path) -> None:
    """Relative paths are those of the file that is imported, where they lead somewhere."""
    (tmp_path / "store").write_bytes(b"x")
    machine = ThisMachine(tmp_path, {"A": "b"})

    assert machine.locate("store") == str(tmp_path / "store")
    assert machine.locate("gone") == str(Path("gone").absolute())
    assert (machine.read("store"), machine.variable("A"), machine.variable("B")) == (b"x", "b", None)
