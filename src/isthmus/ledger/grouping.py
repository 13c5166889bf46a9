"""Groups writes in order, one batch at a time: changes added while one is on its way form the next batch."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from itertools import chain, dropwhile

from isthmus.errors import Unreachable
from isthmus.kafka.batches.batch import Batch
from isthmus.ledger.records import LedgerChange, pack_changes


@dataclass(eq=False, slots=True)
class _Asked:
    """Changes whose caller waits until the `outcome` is there, or gives up; `deadline` is by the loop's clock."""

    changes: tuple[LedgerChange, ...]
    deadline: float
    outcome: asyncio.Future[int | Exception]
    is_sent: bool = False
    goes_alone: bool = False

    @property
    def is_over(self) -> bool:
        return self.outcome.done()

    def tell(self, outcome: int | Exception) -> None:
        if not self.is_over:
            self.outcome.set_result(outcome)


class GroupedWrites:
    """`produce` writes one batch and returns its first offset. If it raises `Unreachable` the result is unknown: the
    batch is written again, `retry_s` later, after `close` has closed its connection. An answer takes `answer_s` at
    most. A caller that times out or is cancelled does not disturb the changes of others.
    """

    def __init__(
        self,
        produce: Callable[[Batch], Awaitable[int]],
        *,
        close: Callable[[], None],
        answer_s: float,
        retry_s: float,
    ) -> None:
        self._produce = produce
        self._close = close
        self._answer_s = answer_s
        self._retry_s = retry_s
        self._asked: list[_Asked] = []
        self._writing: asyncio.Task[None] | None = None

    async def append(self, changes: Iterable[LedgerChange], term_s: float) -> int:
        """Append behind all earlier calls, with retries for `term_s`. Return the offset of the last change.

        :raises TimeoutError: No definite answer came in time.
        """
        loop = asyncio.get_running_loop()
        asked = _Asked(tuple(changes), loop.time() + term_s, loop.create_future())
        self._asked.append(asked)
        if self._writing is None or self._writing.done():
            self._writing = loop.create_task(self._write())
        try:
            await asyncio.wait({asked.outcome}, timeout=term_s)
            if asked.is_sent:
                await asyncio.wait({asked.outcome}, timeout=asked.deadline + self._answer_s - loop.time())
        finally:
            asked.outcome.cancel()
        if asked.outcome.cancelled():
            raise TimeoutError
        outcome = asked.outcome.result()
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def _write(self) -> None:
        while batch := self._next_batch():
            try:
                end = await self._attempt(batch)
            except Unreachable as error:
                await self._pause(batch, error)
            except TimeoutError:
                # Closing the connection takes back a request that a quota has delayed for so long.
                self._close()
                for each in batch:
                    each.outcome.cancel()
            except Exception as error:  # noqa: BLE001 - it is of one of those who have asked
                _tell_refused(batch, error)
            else:
                for each in reversed(batch):
                    each.tell(end)
                    end -= len(each.changes)

    async def _pause(self, batch: list[_Asked], error: Unreachable) -> None:
        """Continue over another connection, without callers that have no time left."""
        self._close()
        again_at = asyncio.get_running_loop().time() + self._retry_s
        for each in batch:
            if each.deadline < again_at:
                each.tell(error)
        await asyncio.sleep(self._retry_s)

    def _next_batch(self) -> list[_Asked]:
        """Return the changes for the next batch. Sent changes whose caller has given up are repeated behind others that
        still wait: else a late copy of them could overtake newer ones. Changes refused together are sent one by one.
        """
        found = dropwhile(lambda each: each.is_over, self._asked)
        self._asked = [each for each in found if each.is_sent or not each.is_over]
        goes_alone = bool(self._asked) and self._asked[0].goes_alone
        batch = self._asked[: 1 if goes_alone else None]
        for each in batch:
            each.is_sent = True
        return batch

    async def _attempt(self, batch: list[_Asked]) -> int:
        """Write the batch once. Return the offset of its last change."""
        made = pack_changes(chain.from_iterable(each.changes for each in batch))
        late = max(each.deadline for each in batch if not each.is_over) + self._answer_s
        async with asyncio.timeout_at(late):
            return await self._produce(made) + made.record_count - 1


def _tell_refused(batch: list[_Asked], error: Exception) -> None:
    if len(batch) == 1:
        batch[0].tell(error)
    for each in batch:
        each.goes_alone = True
