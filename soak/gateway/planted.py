"""A gateway with a fault that was put into it, to see whether the judge finds it.

python -m soak.gateway.planted duplicates gateway serve east --listen ... --advertise ...
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final

from isthmus.cli.app import main as isthmus
from isthmus.gateway import conversation
from isthmus.gateway.frames import producing
from isthmus.gateway.frames.committing import CommitAsked, CommitOwed
from isthmus.gateway.frames.layout import Edit, MessageCursor
from isthmus.gateway.frames.walking import ProduceWalk
from isthmus.gateway.synchronous.commits import CommitLooks
from isthmus.gateway.synchronous.holding import HeldAnswer
from isthmus.gateway.synchronous.keeping import AnswerOwner, Keeper


def remembered() -> None:
    """What a transaction wrote is remembered until its commit, and not asked for: who asks again waits for nothing."""
    look = CommitLooks.look

    async def wrong(self: CommitLooks, asked: CommitAsked) -> CommitOwed | bytes:
        found = await look(self, asked)
        if isinstance(found, CommitOwed) and found.is_all:
            # The connection that wrote is not the one that asks again.
            return CommitOwed(asked)
        return found

    CommitLooks.look = wrong  # type: ignore[method-assign]


def duplicates() -> None:
    """A batch that has come before is answered as soon as the source does."""
    keep, seen = Keeper._keep_written, set[tuple[Any, ...]]()

    def wrong(self: Keeper, answer: HeldAnswer, owner: AnswerOwner, walk: ProduceWalk) -> None:
        batches = {
            (each.topic, each.partition, each.producer_id, each.producer_epoch, each.base_sequence)
            for each in walk.written
            if each.producer_id >= 0
        }
        if batches and batches <= seen:
            answer.is_ready = True
            return
        seen.update(batches)
        keep(self, answer, owner, walk)

    Keeper._keep_written = wrong  # type: ignore[method-assign]


def untagged() -> None:
    """Producers keep the ids that the cluster gave them."""

    def wrong(body: MessageCursor, tag: int, stay: int) -> list[Edit]:
        del body, tag, stay
        return []

    setattr(conversation, producing.tag_producer.__name__, wrong)


PLANTS: Final[dict[str, Callable[[], None]]] = {each.__name__: each for each in (remembered, duplicates, untagged)}


def main() -> None:
    """Put the faults in, and be `isthmus`."""
    for name in sys.argv[1].split(","):
        PLANTS[name]()
    sys.argv = ["isthmus", *sys.argv[2:]]
    isthmus()


if __name__ == "__main__":
    main()
