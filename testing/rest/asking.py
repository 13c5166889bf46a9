"""Requests to a server of the REST API, as a program sends them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import httpx2

from isthmus.model.configuration import Configuration
from isthmus.web.access.tokens import Role, TokenFile
from isthmus.web.serving import ServeSettings, serving_beside
from testing.patience import TERM_S
from testing.rest.answers import check_answer
from testing.values.standing import free_port

RECORDS: Final = 20
OPERATION_S: Final = 240.0
"""A Spark that is started for a verification takes long on a busy machine."""


@dataclass(frozen=True, slots=True)
class Served:
    """A server, the link it is about, and what callers of each role send."""

    base: str
    link: str
    configuration: Configuration
    tokens: dict[Role, str]

    @property
    def topic(self) -> str:
        """The topic of the link."""
        return f"{self.link}.a"

    def ask(self, method: str, path: str, role: Role | None = Role.ADMIN, **more: Any) -> httpx2.Response:
        """The answer to a caller of this role, or to one without a token, held against openapi.json; `{link}` in the
        path is the link.
        """
        headers = dict(more.pop("headers", None) or {})
        if role is not None:
            headers["Authorization"] = f"Bearer {self.tokens[role]}"
        url = self.base + path.replace("{link}", self.link)
        answer = httpx2.request(method, url, headers=headers, timeout=TERM_S, **more)
        path, media_type = urlsplit(url).path, answer.headers.get("Content-Type", "")
        check_answer(method, path, answer.status_code, media_type, answer.text)
        return answer

    def read(self, path: str, role: Role = Role.VIEWER, **more: Any) -> Any:
        """What a path tells; it has to answer."""
        answer = self.ask("GET", path, role, **more)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def begin(self, path: str, role: Role = Role.ADMIN, **more: Any) -> str:
        """Where to look for what a POST began."""
        answer = self.ask("POST", path, role, **more)
        assert answer.status_code == 202, answer.text
        return str(answer.headers["Location"])

    def ended(self, operation: str) -> dict[str, Any]:
        """An operation that has come to its end."""
        deadline = time.monotonic() + OPERATION_S
        while (found := self.read(operation))["state"] == "RUNNING":
            assert time.monotonic() < deadline, found
            time.sleep(0.1)
        return dict(found)


@contextlib.contextmanager
def serving(configuration: Configuration, folder: Path, file: Path | None = None) -> Iterator[Served]:
    """A server of its own, with a token of each role."""
    tokens = TokenFile(folder / "tokens.json")
    sent = {role: tokens.create(f"a {role}", role) for role in Role}
    port = free_port()
    settings = ServeSettings(listen=f"127.0.0.1:{port}", tokens=tokens.path, requests_per_s=1000, file=file)
    with serving_beside(configuration, settings):
        yield Served(f"http://127.0.0.1:{port}", configuration.links[0].name, configuration, sent)
