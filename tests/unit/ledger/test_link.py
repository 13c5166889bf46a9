"""What a controller says of itself while brokers hold back what it writes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import Any, Final

from isthmus.ledger.documents.kinds import ControllerDocument, LoopDocument
from isthmus.ledger.fencing import FencedWriter
from isthmus.ledger.link import LinkLedger
from isthmus.ledger.pulse import SILENCE_S
from isthmus.ledger.records import LedgerChange
from testing.values.brokers import Answering, asking

MUTE_S: Final = 60.0
TERM_S: Final = 20.0


class Muted(FencedWriter):
    """Writes to a leader that reads nothing more over a connection once a large document came over it."""

    def __init__(self, client: Answering) -> None:
        super().__init__(client, "l")
        self.until = 0.0
        self.said: list[LedgerChange] = []

    @property
    def muted_until(self) -> float:
        return self.until

    def held_since(self, begun: float) -> bool:
        return self.until > begun

    def renew(self) -> None:
        self.until = 0.0

    async def append(self, changes: Iterable[LedgerChange], **_: Any) -> int:
        while self.until > time.monotonic():
            await asyncio.sleep(0.01)
        found = list(changes)
        self.said += found
        if any(isinstance(each, LoopDocument) for each in found):
            self.until = time.monotonic() + MUTE_S
        return len(self.said)


class Held(FencedWriter):
    """Writes nothing before it is `free` to."""

    def __init__(self, client: Answering) -> None:
        super().__init__(client, "l")
        self.free = asyncio.Event()
        self.said: list[LedgerChange] = []

    async def append(self, changes: Iterable[LedgerChange], **_: Any) -> int:
        await self.free.wait()
        self.said += changes
        return len(self.said)


def test_what_is_gone_by_is_said_behind_all_that_waits() -> None:
    """Whoever waits for that word has read by then which lanes leases were given before, also where a beat that had
    waited for its turn is written first.
    """

    async def scenario(client: Answering) -> None:
        ledger = LinkLedger(client, "l")
        ledger._writer = writer = Held(client)
        ledger.be_alone()
        ledger.go_by("before")
        running = [asyncio.create_task(each) for each in (ledger.write(loop("first")), ledger._live())]
        try:
            await settled()
            running.append(asyncio.create_task(ledger.write(loop("last"))))
            await settled()
            ledger.go_by("after")
            writer.free.set()
            async with asyncio.timeout(TERM_S):
                while "after" not in map(word, writer.said):
                    await asyncio.sleep(0.01)
        finally:
            for each in running:
                each.cancel()
            await asyncio.gather(*running, return_exceptions=True)
            ledger.close()
        assert [word(each) for each in writer.said] == ["first", "before", "last", "after"]

    def loop(name: str) -> LoopDocument:
        return LoopDocument(link="l", loop=name, state="x")

    def word(change: LedgerChange) -> str:
        return change.attached_said if isinstance(change, ControllerDocument) else change.key.rpartition("/")[2]

    async def settled() -> None:
        for _ in range(10):
            await asyncio.sleep(0)

    asking([], scenario)


def test_that_a_quota_mutes_is_said_before_all_that_waits() -> None:
    """Whatever else is to be written then: the beat that says it waits behind none of that."""

    async def scenario(client: Answering) -> None:
        ledger = LinkLedger(client, "l")
        ledger._writer = writer = Muted(client)
        large = [ledger.write(LoopDocument(link="l", loop=f"loop{n}", state="x")) for n in range(3)]
        running = [asyncio.create_task(each) for each in (*large, ledger._live())]
        try:
            async with asyncio.timeout(TERM_S):
                while not any(isinstance(each, ControllerDocument) and each.held_s for each in writer.said):
                    await asyncio.sleep(0.01)
        finally:
            for each in running:
                each.cancel()
            await asyncio.gather(*running, return_exceptions=True)
            ledger.close()
        beats = [each for each in writer.said if isinstance(each, ControllerDocument)]
        assert beats[-1].held_s > SILENCE_S / 2
        assert [each.beat for each in beats] == sorted(each.beat for each in beats)

    asking([], scenario)
