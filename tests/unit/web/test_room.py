"""How many requests are worked on at a time, and what the others wait for."""

from __future__ import annotations

import asyncio
from pathlib import Path

from starlette.types import ASGIApp, Message, Send

from isthmus.model.configuration import Configuration
from isthmus.web.app import create_app
from isthmus.web.desk import AT_WORK_MAX, FabricDesk
from isthmus.web.guard import RateLimit
from isthmus.web.tokens import TokenFile

NOTHING = Configuration(clusters=(), links=())
_LONG_S = 60


async def ask(app: ASGIApp, send: Send) -> None:
    """A request for the list of clusters."""

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    scope = {
        "type": "http",
        "method": "GET",
        "path": "/v1/clusters",
        "query_string": b"",
        "headers": [(b"host", b"127.0.0.1:8087")],
        "http_version": "1.1",
        "scheme": "http",
    }
    await app(scope, receive, send)


def test_answers_that_nobody_reads_keep_nobody_waiting(tmp_path: Path) -> None:
    """As many as may be worked on at a time are on their way to callers who take nothing; one more is answered."""
    app = create_app(FabricDesk(NOTHING), TokenFile(tmp_path / "tokens.json"), RateLimit(1000.0, 1000))

    async def scenario() -> list[Message]:
        stuck, are_stuck, taken = 0, asyncio.Event(), asyncio.Event()
        sent: list[Message] = []

        async def slow(message: Message) -> None:
            nonlocal stuck
            if message["type"] == "http.response.body":
                stuck += 1
                if stuck == AT_WORK_MAX:
                    are_stuck.set()
                await taken.wait()

        async def quick(message: Message) -> None:
            sent.append(message)

        async with asyncio.timeout(_LONG_S), asyncio.TaskGroup() as asking:
            for _ in range(AT_WORK_MAX):
                asking.create_task(ask(app, slow))
            await are_stuck.wait()
            await ask(app, quick)
            taken.set()
        return sent

    assert asyncio.run(scenario())[0]["status"] == 200
