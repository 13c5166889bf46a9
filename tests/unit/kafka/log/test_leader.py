"""What is appended to one partition: once, or not at all."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import Any, Final, cast

import pytest

from isthmus.errors import BrokerRefused, NotAuthorized
from isthmus.kafka import codes
from isthmus.kafka.batches.batch import scan
from isthmus.kafka.client import Client
from isthmus.kafka.connect.connection import Connection
from isthmus.kafka.log import produce
from isthmus.kafka.log.leader import LogLeader
from isthmus.kafka.log.produce import Append, Appended
from isthmus.kafka.transactions.appending import TopicAppender
from testing.records.stored import PLAIN, stored
from testing.values.log import KEY, StoredLog

BATCH: Final = next(scan(stored(0, [PLAIN] * 3)))
SEQUENCE_AT: Final = slice(53, 57)


class Written(StoredLog):
    """A leader that answers appends with these error codes, one after the other; it notes what was `appended`, and how
    many connections were closed. For `muted_s` after an answer it does not read its connection; `late_s` is for how
    long each append had to wait for that.
    """

    def __init__(self, patch: pytest.MonkeyPatch, *answers: int) -> None:
        super().__init__([], end=0)
        self.appended: list[Append] = []
        self.closed = 0
        self.muted_s = 0.0
        self.late_s: list[float] = []
        self._answers = list(answers)
        patch.setattr(produce, "post_one", self._post_one)

    async def any(self, *_: Any, **__: Any) -> Any:
        return SimpleNamespace(error_code=codes.NONE, producer_id=7)

    async def dial(self, node_id: int) -> Connection:
        return cast(
            Connection, SimpleNamespace(closed=False, due_for_renewal=False, muted_until=0.0, close=self._close)
        )

    def _close(self) -> None:
        self.closed += 1

    async def _post_one(self, connection: Connection, append: Append, **__: Any) -> Appended:
        now = time.monotonic()
        self.appended.append(append)
        self.late_s.append(max(connection.muted_until - now, 0.0))
        connection.muted_until = now + self.muted_s
        return Appended(self._answers.pop(0), 40, None)


def append(client: Client) -> int:
    """Append a batch."""
    return asyncio.run(LogLeader(client, KEY).append(bytes(BATCH.view[:61]), BATCH, term_s=10.0))


def test_a_batch_is_sent_until_a_leader_takes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each time over another connection, to whoever leads the partition by then."""
    client = Written(monkeypatch, codes.NOT_LEADER_OR_FOLLOWER, codes.NOT_ENOUGH_REPLICAS, codes.NONE)

    assert append(client) == 40
    assert (len(client.appended), client.closed) == (3, 2)


def test_a_batch_that_its_leader_has_is_not_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """It took the first of two attempts, and remembers no more of it than its producer's sequence."""
    client = Written(monkeypatch, codes.REQUEST_TIMED_OUT, codes.DUPLICATE_SEQUENCE_NUMBER, codes.NONE)

    async def write() -> None:
        appender = TopicAppender(client, *KEY)
        for _ in range(2):
            await appender.write(BATCH)

    asyncio.run(write())
    sequences = [int.from_bytes(each.header[SEQUENCE_AT], "big") for each in client.appended]
    assert sequences == [0, 0, 3]


def test_the_pause_of_a_quota_is_no_part_of_the_term(monkeypatch: pytest.MonkeyPatch) -> None:
    """The leader reads nothing meanwhile: a batch that is sent then has less time for its answer, or none."""
    client = Written(monkeypatch, codes.NONE, codes.NONE)
    client.muted_s = 0.2

    async def write() -> None:
        appender = TopicAppender(client, *KEY)
        for _ in range(2):
            await appender.write(BATCH)

    asyncio.run(write())
    assert client.late_s == [0, 0]
    assert client.closed == 0


def test_a_refusal_names_the_right_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before Kafka 2.8 producers with an id need one on the cluster."""
    with pytest.raises(NotAuthorized, match="IDEMPOTENT_WRITE"):
        append(Written(monkeypatch, codes.CLUSTER_AUTHORIZATION_FAILED))
    with pytest.raises(BrokerRefused, match="refused writing topic orders: MESSAGE_SIZE_TOO_LARGE"):
        append(Written(monkeypatch, codes.MESSAGE_TOO_LARGE))
