"""Following the log of commits, by what its leaders answer."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from isthmus.errors import Unreachable
from isthmus.kafka import codes
from isthmus.kafka.client import Client
from isthmus.kafka.commits.follower import CommitFollower
from isthmus.kafka.groups.groups import OFFSETS_TOPIC
from isthmus.kafka.metadata import NO_TOPIC_ID
from testing.records.stored import marker

KEY = (OFFSETS_TOPIC, 0)


def answer(records: bytes) -> Any:
    """What a broker sends that reports a used up quota beside the records; Kafka's own send none then."""
    part = SimpleNamespace(
        partition_index=0,
        error_code=codes.NONE,
        last_stable_offset=-1,
        log_start_offset=0,
        aborted_transactions=None,
        records=records,
        high_watermark=1,
    )
    topic = SimpleNamespace(topic=OFFSETS_TOPIC, partitions=[part])
    return SimpleNamespace(API_VERSION=12, error_code=codes.NONE, session_id=0, responses=[topic], throttle_time_ms=1)


def test_a_throttled_answer_with_records_is_read_on_from() -> None:
    """Else the same records would come again and again, and the partition would not advance."""
    asked: list[int] = []
    answers = [answer(marker(0, 7, commit=True))]

    async def call(request: Any, **_: Any) -> Any:
        asked.append(request.topics[0].partitions[0].fetch_offset)
        if not answers:
            raise Unreachable("gone", cluster="nowhere")
        return answers.pop()

    async def dial(_: int) -> Any:
        return SimpleNamespace(call=call, close=lambda: None, due_for_renewal=False)

    async def scenario() -> None:
        client = SimpleNamespace(dial=dial, cluster=SimpleNamespace(alias="nowhere"))
        follower = CommitFollower(cast(Client, client), lambda _: True)
        follower._offsets, follower._epochs = {0: 0}, {0: -1}
        metadata: Any = SimpleNamespace(topics={OFFSETS_TOPIC: SimpleNamespace(topic_id=NO_TOPIC_ID)})
        with pytest.raises(Unreachable):
            await follower._read_from(1, metadata, cast(Any, {KEY: 0}))

    asyncio.run(scenario())
    assert asked == [0, 1]
