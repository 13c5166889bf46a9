"""Commits that are asked for while what passes changes: each is decided by a look at itself."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

from kafka.protocol.producer import EndTxnRequest

from isthmus.gateway.frames.committing import CommitAsked, CommitOwed
from isthmus.gateway.synchronous.holding import HeldAnswer
from isthmus.gateway.synchronous.keeping import AnswerOwner, Keeper
from isthmus.kafka.connect.frames import encode_request
from tests.unit.gateway.passages import Place, answered, found, place, request, run, until


def commit(correlation: int) -> bytes:
    """The frame of an EndTxn."""
    asked = EndTxnRequest(transactional_id="payments", producer_id=5, producer_epoch=1, committed=True)
    return bytes(encode_request(asked, 0, correlation, "client"))


@dataclass(slots=True)
class Looking:
    """What looks at commits when the test lets it, and holds no answer."""

    lets: asyncio.Event = field(default_factory=asyncio.Event)
    duties: Any = field(default_factory=lambda: SimpleNamespace(links=("orders",)))
    looks: list[int] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)

    async def look_at(self, asked: CommitAsked) -> CommitOwed:
        """What it waits for."""
        self.looks.append(asked.correlation)
        await self.lets.wait()
        return CommitOwed(asked)

    def keep(self, answer: HeldAnswer, owner: AnswerOwner) -> None:
        """Have it leave."""
        if isinstance(answer.owed, CommitOwed):
            self.kept.append(answer.owed.asked.correlation)
        answer.is_ready = True

    def leave(self, owner: AnswerOwner) -> None:
        """Nobody waits any more."""


async def asked(here: Place) -> tuple[Looking, asyncio.StreamReader, asyncio.StreamWriter]:
    """A client whose first commit is being looked at."""
    looking = Looking()
    here.gateway.keeper = cast(Keeper, looking)
    reader, writer = await here.connect()
    await found(here)
    writer.write(commit(1))
    await until(lambda: looking.looks)
    return looking, reader, writer


def test_a_commit_that_was_fenced_is_looked_at_again_and_so_is_the_next() -> None:
    """What was found of one before the fence is down is nothing that it may pass by, and no other one ever."""

    async def story() -> None:
        async with place() as here:
            looking, reader, writer = await asked(here)
            here.gateway.fence(is_up=True, why="doubt")
            looking.lets.set()
            for _ in range(20):
                await asyncio.sleep(0)
            assert looking.looks == [1]
            assert not here.broker.asked_bytes
            here.gateway.fence(is_up=False, why="doubt")
            assert await answered(reader) == 1
            assert looking.looks == [1, 1]
            writer.write(commit(2))
            assert await answered(reader) == 2
            assert looking.looks == [1, 1, 2]
            assert looking.kept == [1, 2]

    run(story())


def test_a_commit_during_a_fence_that_is_up_and_down_passes_once() -> None:
    """Who looks at it meanwhile looks at the one before the fence."""

    async def story() -> None:
        async with place() as here:
            looking, reader, writer = await asked(here)
            here.gateway.fence(is_up=True)
            here.gateway.fence(is_up=False)
            looking.lets.set()
            writer.write(commit(2))
            assert [await answered(reader) for _ in range(2)] == [1, 2]
            assert looking.looks == [1, 1, 2]
            assert looking.kept == [1, 2]
            assert here.broker.asked_bytes == 2 * len(commit(1))

    run(story())


def test_a_link_that_is_asynchronous_when_a_commit_is_decided() -> None:
    """It passes, and what comes behind it: nobody looks at it again."""

    async def story() -> None:
        async with place() as here:
            looking, reader, writer = await asked(here)
            looking.duties.links = ()
            looking.lets.set()
            assert await answered(reader) == 1
            writer.write(request(2))
            assert await answered(reader) == 2
            looking.duties.links = ("orders",)
            writer.write(commit(3))
            assert await answered(reader) == 3
            assert looking.looks == [1, 3]
            assert looking.kept == [1, 3]

    run(story())
