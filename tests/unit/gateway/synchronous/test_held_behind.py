"""What a connection keeps while an answer before it is held, and who is read meanwhile."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

from isthmus.gateway.synchronous.holding import HELD_BYTES_MAX, HeldAnswer
from isthmus.gateway.synchronous.keeping import AnswerOwner, Keeper
from isthmus.model.gateways.synchrony import Duty
from tests.unit.gateway.passages import Broker, answered, found, place, request, run, until

OFFSET_COMMIT, COUNT = 8, 40


@dataclass(slots=True)
class Keeping:
    """What holds each answer that may be held, until the test lets go of it."""

    held: list[tuple[HeldAnswer, AnswerOwner]] = field(default_factory=list)
    duties: Any = field(default_factory=lambda: SimpleNamespace(links=[SimpleNamespace(duty=lambda **_: Duty.HOLD)]))

    def keep(self, answer: HeldAnswer, owner: AnswerOwner) -> None:
        """Hold it."""
        self.held.append((answer, owner))

    def leave(self, owner: AnswerOwner) -> None:
        """Nobody waits any more."""


def test_a_broker_is_not_read_for_ever() -> None:
    """Behind an answer that is held at most so much is kept; all of it comes in order once that one may leave."""

    async def story() -> None:
        keeping = Keeping()
        async with place(broker=Broker(answer_bytes=HELD_BYTES_MAX // 4)) as here:
            here.gateway.keeper = cast(Keeper, keeping)
            reader, writer = await here.connect()
            writer.write(request(1, 100, key=OFFSET_COMMIT, version=2))
            (passage,) = await found(here)
            await until(lambda: keeping.held)
            writer.write(b"".join(request(number) for number in range(2, COUNT)))
            before = -1
            while before != passage.answer_bytes:
                before = passage.answer_bytes
                await asyncio.sleep(0.2)
            assert before < 3 * HELD_BYTES_MAX

            answer, owner = keeping.held[0]
            answer.is_ready = True
            owner.release()
            assert [await answered(reader) for _ in range(1, COUNT)] == list(range(1, COUNT))

    run(story())
