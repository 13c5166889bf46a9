"""Which PEM files cannot be used, and why."""

from __future__ import annotations

from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from isthmus.kafka.connect.certificates import pem_problems
from isthmus.model.cluster import Secret, Tls

SOUND = {"ca_file": "ca.pem", "certificate_file": "client.pem", "key_file": "client.key"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate authority, a certificate of its with its key, also encrypted, and files that are none."""
    folder = tmp_path_factory.mktemp("pems")
    authority = trustme.CA()
    issued, other = authority.issue_cert("isthmus"), authority.issue_cert("other")
    authority.cert_pem.write_to_path(folder / "ca.pem")
    issued.cert_chain_pems[0].write_to_path(folder / "client.pem")
    issued.private_key_pem.write_to_path(folder / "client.key")
    issued.private_key_and_cert_chain_pem.write_to_path(folder / "whole.pem")
    other.private_key_pem.write_to_path(folder / "other.key")
    key = load_pem_private_key(issued.private_key_pem.bytes(), None)
    encrypted = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"s3cret"))
    (folder / "locked.key").write_bytes(encrypted)
    (folder / "broken.pem").write_text("no certificate")
    (folder / "empty.pem").touch()
    (folder / "folder.pem").mkdir()
    return folder


def told(folder: Path, password: str | None = None, **files: str | None) -> dict[str, str]:
    """By key the reasons why files cannot be used."""
    paths = {key: str(folder / name) if name else None for key, name in files.items()}
    tls = Tls(
        ca_file=paths.get("ca_file"),
        certificate_file=paths.get("certificate_file"),
        key_file=paths.get("key_file"),
        key_password=None if password is None else Secret(password),
    )
    found = list(pem_problems(tls))
    assert all(problem.file == paths[problem.key] for problem in found)
    return {problem.key: problem.reason for problem in found}


@pytest.mark.parametrize(
    ("files", "password"),
    [
        ({}, None),
        ({"ca_file": "ca.pem"}, None),
        (SOUND, None),
        ({"certificate_file": "whole.pem"}, None),
        (SOUND | {"key_file": "locked.key"}, "s3cret"),
    ],
)
def test_sound_files(folder: Path, files: dict[str, str], password: str | None) -> None:
    """A key may be a file of its own, stand with its certificate, or be encrypted."""
    assert told(folder, password, **files) == {}


@pytest.mark.parametrize("key", SOUND)
@pytest.mark.parametrize(
    ("name", "reason"), [("gone.pem", "No such file or directory"), ("folder.pem", "Is a directory")]
)
def test_files_that_cannot_be_read(folder: Path, key: str, name: str, reason: str) -> None:
    """The system's reason is told for each of them."""
    assert told(folder, **SOUND | {key: name}) == {key: f"cannot be read: {reason}"}


@pytest.mark.parametrize("key", ["ca_file", "certificate_file"])
@pytest.mark.parametrize("name", ["broken.pem", "empty.pem", "client.key"])
def test_files_without_a_certificate(folder: Path, key: str, name: str) -> None:
    """A key is none either."""
    assert told(folder, **SOUND | {key: name}) == {key: "holds no certificate in PEM form"}


@pytest.mark.parametrize(
    ("name", "password", "reason"),
    [
        ("broken.pem", None, "holds no private key in PEM form"),
        ("client.pem", None, "holds no private key in PEM form"),
        ("other.key", None, "is not the key of the certificate in"),
        ("locked.key", None, "is encrypted, and key_password is missing"),
        ("locked.key", "wrong", "is encrypted, and key_password does not open it"),
    ],
)
def test_keys_that_do_not_fit(folder: Path, name: str, password: str | None, reason: str) -> None:
    """Neither is the password told, nor is a terminal asked for one."""
    found = told(folder, password, **SOUND | {"key_file": name})
    assert list(found) == ["key_file"]
    assert found["key_file"].startswith(reason)


def test_every_file_is_told_at_once(folder: Path) -> None:
    """One correction is not followed by the next complaint."""
    assert list(told(folder, ca_file="gone", certificate_file="gone", key_file="gone")) == list(SOUND)
