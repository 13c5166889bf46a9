"""A broker that leads what a test writes to, as a lane sees it: it notes what comes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

from kafka.protocol.admin import DeleteRecordsRequest
from kafka.protocol.consumer import ListOffsetsRequest

from isthmus.engine.brokers.routes import Leader, Routes
from isthmus.errors import Unreachable
from isthmus.kafka.client import Client
from isthmus.kafka.connect.connection import Connection
from isthmus.kafka.permission import Permission
from testing.values.looks import NOWHERE

PRODUCE, WRITE_TXN_MARKERS = 0, 27


class Led:
    """A connection to a leader. `asked` are the requests that came, `posted` the appends, which wait for an answer, and
    `permissions` what either was to ask before its bytes leave.

    Control records are taken as long as it answers; whether they are after that nobody knows. `stable` is the last
    stable offset it tells, `refusal` the error code with which it refuses control records.
    """

    cluster = where = client_id = "nowhere"
    closed = due_for_renewal = False
    next_correlation = 1
    silent_s = 0.0
    muted_until = 0.0

    def __init__(self, *, answers: int = 1000, stable: int = 0, refusal: int = 0) -> None:
        self.asked: list[Any] = []
        self.posted: list[asyncio.Future[Any]] = []
        self.permissions: list[Permission | None] = []
        self._answers = answers
        self._stable = stable
        self._refusal = refusal
        self.api_versions = {PRODUCE: (3, 12), WRITE_TXN_MARKERS: (0, 1)}

    @property
    def connection(self) -> Connection:
        return cast(Connection, self)

    async def call(self, request: Any, *, may_send: Permission | None = None, **_: Any) -> Any:
        self.asked.append(request)
        self.permissions.append(may_send)
        if len(self.asked) > self._answers:
            raise Unreachable("gone", cluster="nowhere")
        if isinstance(request, ListOffsetsRequest):
            told = SimpleNamespace(partition_index=0, error_code=0, offset=self._stable)
            return SimpleNamespace(topics=[SimpleNamespace(name="orders", partitions=[told])])
        if isinstance(request, DeleteRecordsRequest):
            deleted = SimpleNamespace(error_code=0)
            return SimpleNamespace(topics=[SimpleNamespace(partitions=[deleted])])
        # The first is a question only: whether they are taken at all.
        code = self._refusal if len(self.asked) > 1 else 0
        taken = [SimpleNamespace(topics=[SimpleNamespace(partitions=[SimpleNamespace(error_code=code)])])]
        return SimpleNamespace(markers=taken * len({marker.producer_id for marker in request.markers}))

    def post_frame(self, *_: Any, may_send: Permission | None = None, **__: Any) -> asyncio.Future[Any]:
        self.permissions.append(may_send)
        self.posted.append(asyncio.get_running_loop().create_future())
        return self.posted[-1]

    def close(self, _: Exception | None = None) -> None:
        """There is no socket."""


class OneLeader(Routes[Any]):
    """One broker leads everything."""

    def __init__(self, client: Client, led: Led) -> None:
        super().__init__(client)
        self._led = led

    def leader(self, topic: str, partition: int) -> Leader | None:
        return Leader(1, 0)

    async def reach(self, topic: str, partition: int) -> tuple[Leader, Connection]:
        return Leader(1, 0), self._led.connection


def with_leader(led: Led, work: Callable[[OneLeader], Awaitable[None]]) -> None:
    """Do something that needs a leader to write to."""

    async def scenario() -> None:
        async with Client(NOWHERE) as client:
            await work(OneLeader(client, led))

    asyncio.run(scenario())
