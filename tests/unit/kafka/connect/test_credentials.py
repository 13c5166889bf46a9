"""Credentials that stand in files, which somebody changes while Isthmus runs."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest

from isthmus.config.file import parse
from isthmus.kafka.connect.credentials import renew_credentials
from isthmus.model.cluster import Cluster, Security

LOGIN = """\
clusters:
  east:
    bootstrap_servers: "127.0.0.1:9192"
    security: {mechanism: PLAIN, username: "${file:login:user}", password: "${env:SALT}${file:password}!"}
"""
TOKEN = """\
clusters:
  east:
    bootstrap_servers: "127.0.0.1:9192"
    security:
      mechanism: OAUTHBEARER
      oauth: {token_endpoint_url: "http://127.0.0.1/", client_id: me, client_secret: "${file:password}"}
      tls: {certificate_file: client.pem, key_password: "${file:password}"}
"""
PROXY = """\
clusters:
  east:
    bootstrap_servers: "127.0.0.1:9192"
    proxy: {url: "socks5://me@proxy.example:1080", password: "${file:password}"}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The files of a login."""
    (tmp_path / "login").write_text("user=first\n")
    (tmp_path / "password").write_text("old\n")
    return tmp_path


def configured(text: str, folder: Path) -> Cluster:
    """The only cluster of a configuration."""
    (cluster,) = parse(text, folder=folder, environment={"SALT": "pepper"}).clusters
    return cluster


def login(security: Security) -> tuple[str | None, str]:
    """User and password."""
    assert security.password is not None
    return security.username, security.password.reveal()


def test_what_files_hold_now(folder: Path) -> None:
    """User and password are read again, in a copy that travelled to another process too; the rest of a text stays."""
    cluster = configured(LOGIN, folder)
    assert login(cluster.security) == ("first", "pepperold!")
    (folder / "login").write_text("user=second\n")
    (folder / "password").write_text("new\n")

    assert login(renew_credentials(pickle.loads(pickle.dumps(cluster))).security) == ("second", "peppernew!")  # noqa: S301
    assert login(cluster.security) == ("first", "pepperold!")


def test_nested_texts(folder: Path) -> None:
    """So are the secret of a token's client and the password of a key."""
    cluster = configured(TOKEN, folder)
    (folder / "password").write_text("new")

    security = renew_credentials(cluster).security

    assert security.oauth is not None
    assert security.tls.key_password is not None
    assert (security.oauth.client_secret.reveal(), security.tls.key_password.reveal()) == ("new", "new")


def test_files_that_cannot_be_read_now(folder: Path) -> None:
    """A file that is missing, emptied, without the key, a pipe or no text leaves what was known; others are renewed."""
    cluster = configured(LOGIN, folder)
    (folder / "login").write_text("other=second\n")
    (folder / "password").write_text("new")
    assert login(renew_credentials(cluster).security) == ("first", "peppernew!")
    for spoil in (
        lambda: (folder / "password").write_text(""),
        lambda: (folder / "password").write_bytes(b"\xff"),
        lambda: (folder / "password").unlink(),
        lambda: os.mkfifo(folder / "password"),
    ):
        spoil()
        assert login(renew_credentials(cluster).security) == ("first", "pepperold!")


def test_written_out(folder: Path) -> None:
    """What does not come from a file is never read again."""
    cluster = configured(LOGIN.replace("${file:login:user}", "me").replace("${file:password}", ""), folder)

    assert renew_credentials(cluster) is cluster


def test_secrets_stay_hidden(folder: Path) -> None:
    """Neither a file's text nor an environment variable's shows in what is logged."""
    shown = repr(configured(LOGIN, folder))

    assert "old" not in shown
    assert "pepper" not in shown


def test_the_password_of_a_proxy(folder: Path) -> None:
    """It is read again like that of a login, and hidden like it."""
    cluster = configured(PROXY, folder)
    (folder / "password").write_text("new\n")
    proxy = renew_credentials(cluster).proxy
    assert proxy is not None
    assert proxy.password is not None
    assert proxy.password.reveal() == "new"
    assert "new" not in repr(proxy)
