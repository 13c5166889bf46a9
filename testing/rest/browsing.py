"""A console over links whose standing the test makes up, asked as a browser asks."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import httpx2
from fastapi.testclient import TestClient

from isthmus import config
from isthmus.model.links.progress import LinkProgress
from isthmus.web.access.guard import RateLimit
from isthmus.web.access.tokens import TokenFile
from isthmus.web.app import create_app
from isthmus.web.desk import FabricDesk
from isthmus.web.watching import Watch
from testing.values.standing import link_at, topic_at

# Nobody listens at these ports: pages are made of what was seen.
CONFIGURATION = """
clusters:
  east: {bootstrap_servers: "127.0.0.1:1"}
  west: {bootstrap_servers: "127.0.0.1:2"}
  north: {bootstrap_servers: "127.0.0.1:3"}
links:
  - {name: east-west, source: east, target: west, topics: {include: ["orders"]}}
trees:
  - {name: continents, clusters: [[east, west], north], topics: ["shop-*"]}
"""
BASE = "http://127.0.0.1:8087"
OWN = {"Origin": BASE, "Sec-Fetch-Site": "same-origin"}


async def no_links() -> tuple[()]:
    """Nobody asks for them: how links stand is fed."""
    return ()


class Browser:
    """A browser that follows nothing by itself; its session's cookie is kept."""

    def __init__(self, tokens: Path, links: tuple[LinkProgress, ...] = (), *, base: str = BASE) -> None:
        self.tokens = TokenFile(tokens)
        self.watch = Watch(no_links, is_fed=True)
        self.watch.take(links or (link_at(topic_at("orders")),))
        self.desk = FabricDesk(config.parse(CONFIGURATION))
        app = create_app(self.desk, self.tokens, RateLimit(1000, 1000), self.watch)
        self._client = TestClient(app, base_url=base, follow_redirects=False)

    def get(self, path: str, **headers: str) -> httpx2.Response:
        """A page."""
        return self._client.get(path, headers=headers)

    def text(self, path: str) -> str:
        """A page that is there."""
        answer = self.get(path)
        assert answer.status_code == 200, answer.text
        return answer.text

    def post(self, path: str, headers: dict[str, str] | None = None, **fields: Any) -> httpx2.Response:
        """A form that is sent, from a page of the console unless the headers say otherwise."""
        return self._client.post(path, data=fields, headers=OWN if headers is None else headers)

    def request(self, path: str, **body: Any) -> httpx2.Response:
        """A POST to the REST API, as a program sends it."""
        return self._client.post(path, json=body)

    def log_in(self, secret: str) -> httpx2.Response:
        """With a token."""
        return self.post("/login", token=secret)


def seen_in(page: str) -> str:
    """The text of a page, as it is without its marks."""
    return re.sub(r"<[^>]*>", " ", page)
