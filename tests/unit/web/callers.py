"""Callers of each role, each with a token of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
from fastapi.testclient import TestClient

from isthmus.model.configuration import Configuration
from isthmus.web.access.guard import RateLimit
from isthmus.web.access.tokens import Role, TokenFile
from isthmus.web.app import create_app
from isthmus.web.desk import FabricDesk
from testing.rest.answers import check_answer


class DescribedClient(TestClient):
    """A client that looks whether what it is answered is what openapi.json says."""

    def request(self, method: str, url: Any, **more: Any) -> httpx2.Response:
        """As any client, with every answer held against its description."""
        answer = super().request(method, url, **more)
        path, media_type = urlsplit(str(url)).path, answer.headers.get("Content-Type", "")
        check_answer(method, path, answer.status_code, media_type, answer.text)
        return answer


def callers(configuration: Configuration, folder: Path) -> dict[Role, TestClient]:
    """Who asks a server of this configuration, by role: `a viewer`, `a operator`, `a admin`."""
    tokens = TokenFile(folder / "tokens.json")
    app = create_app(FabricDesk(configuration), tokens, RateLimit(1e6, 1000))
    return {
        role: DescribedClient(
            app,
            base_url="http://127.0.0.1:8087",
            headers={"Authorization": f"Bearer {tokens.create(f'a {role}', role)}"},
        )
        for role in Role
    }
