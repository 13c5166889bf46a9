"""Writes that go as groups: who hears what, and in which order it is on the log, whatever its leader does and when."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, precondition, rule

from isthmus.errors import ClusterError, Unreachable
from isthmus.kafka.batches.batch import Batch
from isthmus.ledger.grouping import GroupedWrites
from isthmus.ledger.records import Deletion, mark_key, unpack_batches

ANSWER_S, RETRY_S = 6.0, 0.1


class Clockwork(asyncio.SelectorEventLoop):
    """A loop whose time is what it is told."""

    now = 0.0

    def time(self) -> float:
        return self.now

    def settle(self) -> None:
        """Do all that can be done now."""
        for _ in range(12):
            self.call_soon(self.stop)
            self.run_forever()


class Refused(ClusterError):
    """Brokers do not take it."""


@dataclass(eq=False)
class Asking:
    """Somebody who has one record written."""

    number: int
    deadline: float
    is_foul: bool
    task: asyncio.Task[int]

    @property
    def waits(self) -> bool:
        return not self.task.done()


class Writing(RuleBasedStateMachine):
    """A leader who takes one batch after the other, or loses it, or its answer, or stands still; and who has it written
    to. What brokers do not take is `foul`.
    """

    askings = Bundle("askings")

    @initialize()
    def begin(self) -> None:
        self.loop = Clockwork()
        self.asked: list[Asking] = []
        self.log: list[int] = []
        self.batch: list[int] = []
        self.answer: asyncio.Future[int] | None = None
        self.breaks = self.closed = 0
        self.was_refused = False
        self.answered, self.sent = set[int](), set[int]()
        self.writes = GroupedWrites(self.produce, close=self.close, answer_s=ANSWER_S, retry_s=RETRY_S)

    async def produce(self, batch: Batch) -> int:
        """What was asked for alone or in order comes in order, and nothing that waits is left for later."""
        assert self.answer is None
        (found,) = (entries for _, entries in unpack_batches(bytes(batch.view)))
        self.batch = [int(entry.key.rpartition("/")[2]) for entry in found]
        assert self.batch == sorted(self.batch)
        self.sent |= set(self.batch)
        left = {each.number for each in self.asked if self.is_wanted(each)} - {*self.batch}
        assert not left or (self.was_refused and len(self.batch) == 1)
        self.answer = self.loop.create_future()
        try:
            return await self.answer
        except (Unreachable, asyncio.CancelledError):
            self.breaks += 1
            raise
        finally:
            self.answer = None

    def is_wanted(self, asking: Asking) -> bool:
        """Whether somebody waits for it still, though he may not have heard the outcome yet."""
        is_late = self.loop.now >= asking.deadline + ANSWER_S
        return asking.waits and not is_late and not asking.task.cancelling() and asking.number not in self.answered

    def close(self) -> None:
        """Nobody but a write that broke closes a connection."""
        self.closed += 1
        assert self.closed <= self.breaks

    @rule(target=askings, term_s=st.sampled_from([0.0, 0.05, 1.0, 3.0]), is_foul=st.sampled_from([False] * 7 + [True]))
    def ask(self, term_s: float, *, is_foul: bool) -> Asking:
        """Somebody has something written."""
        number = len(self.asked)
        work = self.writes.append([Deletion(mark_key("l", number))], term_s)
        asking = Asking(number, self.loop.now + term_s, is_foul, self.loop.create_task(work))
        self.asked.append(asking)
        self.loop.settle()
        return asking

    @rule(asking=askings)
    def cancel(self, asking: Asking) -> None:
        """It is not wanted any more."""
        asking.task.cancel()
        self.loop.settle()

    @precondition(lambda self: self.answer is not None)
    @rule()
    def take(self) -> None:
        """The leader takes what was sent, or refuses it."""
        assert self.answer is not None
        if any(self.asked[number].is_foul for number in self.batch):
            self.was_refused = True
            self.answered |= set(self.batch if len(self.batch) == 1 else ())
            self.answer.set_exception(Refused("no"))
        else:
            self.answered |= set(self.batch)
            self.answer.set_result(len(self.log))
            self.log += self.batch
        self.loop.settle()

    @precondition(lambda self: self.answer is not None)
    @rule(has_taken=st.booleans())
    def lose(self, *, has_taken: bool) -> None:
        """The connection breaks, before or behind what the leader takes."""
        assert self.answer is not None
        if has_taken and not any(self.asked[number].is_foul for number in self.batch):
            self.log += self.batch
        self.answer.set_exception(Unreachable("gone"))
        self.loop.settle()

    @rule(passed_s=st.sampled_from([0.02, RETRY_S, 1.0, ANSWER_S]))
    def pass_time(self, passed_s: float) -> None:
        """Nothing else happens."""
        self.loop.now += passed_s
        self.loop.settle()

    @invariant()
    def is_in_order(self) -> None:
        """What was asked for later stands behind; of what was refused together, where its writer knows that it does."""
        last = {number: offset for offset, number in enumerate(self.log)}
        before = -1
        for number in sorted(last):
            task = self.asked[number].task
            is_known = task.done() and not task.cancelled() and task.exception() is None
            if is_known or not self.was_refused:
                assert last[number] > before
            before = max(before, last[number])

    @invariant()
    def waits_for_none_in_vain(self) -> None:
        """What nobody waits for any more is taken back."""
        limits = [self.asked[number].deadline + ANSWER_S for number in self.batch]
        assert self.answer is None or self.loop.now < max(limits)

    @invariant()
    def hear_their_own(self) -> None:
        """Each hears in time where its own record stands, or what became of it."""
        for each in self.asked:
            late = each.deadline + (ANSWER_S if each.number in self.sent else 0.0)
            if each.waits:
                assert self.loop.now < late
            elif not each.task.cancelled():
                error = each.task.exception()
                if error is None:
                    assert self.log[each.task.result()] == each.number
                elif isinstance(error, Refused):
                    assert each.is_foul
                elif isinstance(error, TimeoutError):
                    assert late <= self.loop.now
                else:
                    assert isinstance(error, Unreachable)
                    assert each.deadline < self.loop.now + RETRY_S

    def teardown(self) -> None:
        """Whoever waits still is told, once the leader does as it should."""
        if not hasattr(self, "loop"):
            return
        try:
            self.pass_time(RETRY_S)
            while self.answer is not None:
                self.take()
            self.is_in_order()
            self.hear_their_own()
            assert not any(each.waits for each in self.asked)
        finally:
            for task in asyncio.all_tasks(self.loop):
                task.cancel()
            self.loop.settle()
            self.loop.close()


TestWriting = Writing.TestCase
