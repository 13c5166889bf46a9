"""Requests to a server of the REST API, as a program sends them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx2

from isthmus.model.configuration import Configuration
from isthmus.web.serving import ServeSettings, serving_beside
from isthmus.web.tokens import Role, TokenFile
from tests.unit.metrics.standing import free_port

RECORDS: Final = 20
TERM_S: Final = 60.0


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
        """The answer to a caller of this role, or to one without a token; `{link}` in the path is the link."""
        headers = dict(more.pop("headers", None) or {})
        if role is not None:
            headers["Authorization"] = f"Bearer {self.tokens[role]}"
        url = self.base + path.replace("{link}", self.link)
        return httpx2.request(method, url, headers=headers, timeout=TERM_S, **more)

    def read(self, path: str, role: Role = Role.VIEWER, **more: Any) -> Any:
        """What a path tells; it has to answer."""
        answer = self.ask("GET", path, role, **more)
        assert answer.status_code == 200, answer.text
        return answer.json()


@contextlib.contextmanager
def serving(configuration: Configuration, folder: Path) -> Iterator[Served]:
    """A server of its own, with a token of each role."""
    tokens = TokenFile(folder / "tokens.json")
    sent = {role: tokens.create(f"a {role}", role) for role in Role}
    port = free_port()
    settings = ServeSettings(listen=f"127.0.0.1:{port}", tokens=tokens.path, requests_per_s=1000)
    with serving_beside(configuration, settings):
        yield Served(f"http://127.0.0.1:{port}", configuration.links[0].name, configuration, sent)
