"""Where the REST API may listen."""

from __future__ import annotations

import ast
import logging
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest
import yaml
from typer.testing import CliRunner

from isthmus.cli.app import app
from isthmus.errors import ConfigError, HostError
from isthmus.fabric import async_fabric
from isthmus.model.configuration import Configuration
from isthmus.model.link import Link
from isthmus.web.access.tokens import Role, TokenFile
from isthmus.web.serving import ServeSettings, serve, serving_beside
from testing.patience import TERM_S
from testing.values.standing import free_port

NOTHING = Configuration(clusters=(), links=())


def test_a_server_loads_nothing_later_on() -> None:
    """What a verb of the fabric loads when it is called, a server has from its start: the files may be replaced."""
    tree = ast.parse(Path(async_fabric.__file__).read_text(encoding="utf-8"))
    verbs = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    later = {each.module for verb in verbs for each in ast.walk(verb) if isinstance(each, ast.ImportFrom)}
    code = "import sys, isthmus.web.serving; print(*sys.modules, sep='\\n')"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert later
    assert later <= {*loaded}


@pytest.mark.parametrize("lacks", ["tokens", "certificate"])
def test_other_hosts_are_let_in_with_tls_and_tokens_only(tmp_path: Path, lacks: str) -> None:
    """One of the two is not enough; it is found before anything listens."""
    tokens, pem = TokenFile(tmp_path / "tokens.json"), tmp_path / "server.pem"
    if lacks != "tokens":
        tokens.create("alice", Role.ADMIN)
    has_tls = lacks != "certificate"
    settings = ServeSettings(
        listen="0.0.0.0:8087",
        tokens=tokens.path,
        certificate=pem if has_tls else None,
        key=pem if has_tls else None,
    )

    with pytest.raises(ConfigError, match=r"other hosts could reach 0\.0\.0\.0:8087"):
        serve(NOTHING, settings)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--serve", "0.0.0.0:8087"), "other hosts could reach 0.0.0.0:8087"),
        (("--serve", "127.0.0.1:8087", "--tls-cert", "server.pem"), "belong together"),
        (("--tls-key", "server.pem"), "are for --serve"),
    ],
    ids=["no TLS", "no key", "no server"],
)
def test_a_run_is_not_served_where_a_server_would_not_listen(
    tmp_path: Path, options: tuple[str, ...], told: str
) -> None:
    """It ends before anything is begun, as `isthmus serve` does."""
    file = tmp_path / "isthmus.yaml"
    clusters = {alias: {"bootstrap_servers": "127.0.0.1:1"} for alias in ("east", "west")}
    link = {"name": "mirror", "source": "east", "target": "west", "topics": {"include": ["orders"]}}
    file.write_text(yaml.safe_dump({"clusters": clusters, "links": [link]}))
    tokens = ("--tokens", str(tmp_path / "tokens.json"))

    ended = CliRunner().invoke(app, ["run", "mirror", "-c", str(file), *options, *tokens])

    assert ended.exit_code == ConfigError.exit_code
    assert told in " ".join(ended.stderr.split())


def test_a_certificate_needs_its_key(tmp_path: Path) -> None:
    """And both have to be there."""
    pem = tmp_path / "server.pem"
    listen, tokens = "127.0.0.1:8087", tmp_path / "tokens.json"

    with pytest.raises(ConfigError, match="belong together"):
        serve(NOTHING, ServeSettings(listen=listen, tokens=tokens, certificate=pem))
    with pytest.raises(ConfigError, match="cannot be used"):
        serve(NOTHING, ServeSettings(listen=listen, tokens=tokens, certificate=pem, key=pem))


def test_a_broken_file_of_tokens_lets_nobody_in(tmp_path: Path) -> None:
    """It is found when the server starts."""
    tokens = tmp_path / "tokens.json"
    tokens.write_text("{}")

    with pytest.raises(HostError, match="is no file of tokens"):
        serve(NOTHING, ServeSettings(listen="127.0.0.1:8087", tokens=tokens))


def test_a_run_ends_though_its_server_hangs(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever its loop is at: the run does not wait for it for ever, and says so."""
    caplog.set_level(logging.ERROR)
    port, goes_on, begun = free_port(), threading.Event(), threading.Event()

    class Hanging(tuple[Link, ...]):
        """Links that nobody comes to the end of."""

        __slots__ = ()

        def __iter__(self) -> Iterator[Link]:
            begun.set()
            goes_on.wait(TERM_S)
            return super().__iter__()

    settings = ServeSettings(listen=f"127.0.0.1:{port}", tokens=tmp_path / "tokens.json")
    with ThreadPoolExecutor(1) as asking:
        with serving_beside(replace(NOTHING, links=Hanging()), settings, hang_s=0.1):
            asked = asking.submit(httpx2.get, f"http://127.0.0.1:{port}/v1/links", timeout=TERM_S)
            assert begun.wait(TERM_S)
        assert "it is left as it is" in caplog.text
        goes_on.set()
        asked.exception(TERM_S)
    (server,) = [each for each in threading.enumerate() if each.name == "rest"]
    server.join(TERM_S)
