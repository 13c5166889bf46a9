"""Wait until nobody writes to a topic of the target, and check it once more before it is deleted."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from isthmus.deadline import Deadline
from isthmus.errors import GateNotMet
from isthmus.kafka.client import Client
from isthmus.kafka.log.offsets import log_ranges
from isthmus.kafka.transactions.aborting import transactions_holding
from isthmus.links.writers import build_undecided, build_written_to, owners_in
from isthmus.memory.ending import end_leases
from isthmus.memory.hearing import Beats
from isthmus.memory.leaving import is_writing
from isthmus.memory.links import recollect
from isthmus.model.kafka.log import LogRange
from isthmus.model.kafka.topic import TopicDescription
from isthmus.model.kafka.transactions import TransactionState
from isthmus.model.link import Link
from isthmus.model.naming import TargetTopic

OnStep = Callable[[str], None]
LOOK_S: Final = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class QuietTopic:
    """A topic of a link at its target. `quiet_s` is for how long it must not have been written to. If it `is_to_go`,
    transactions that lanes have left open end with it.
    """

    link: Link
    target: Client
    topic: TargetTopic
    quiet_s: float
    timeout_s: float
    on_step: OnStep
    is_to_go: bool = True

    async def await_it(self, there: TopicDescription) -> Mapping[int, LogRange]:
        """Return the target's logs, once no lane holds them and they have not been written to for a while.

        :raises GateNotMet: A client writes to it or has a transaction open there, or a lane does not let go.
        :raises ClusterError: The target does not answer.
        """
        self.on_step(f"{self.topic}: waiting until no producer writes to it")
        deadline = Deadline(max(self.timeout_s, self.quiet_s))
        before, quiet_from, beats = await self._logs(there), time.monotonic(), Beats()
        while True:
            known = await recollect(self.link.name, self.target)
            # Only the time between two looks counts as quiet, however long each of them takes.
            looked_at, logs = time.monotonic(), await self._logs(there)
            held = is_writing(known, lambda topic: topic == self.topic)
            if logs != before or held:
                quiet_from = time.monotonic()
            is_open = [] if held else await self._find_open(logs)
            if not is_open and not held and looked_at - quiet_from >= self.quiet_s:
                return logs
            if held and beats.is_gone(known):
                self.on_step(f"{self.topic}: ending the tasks of a controller that is gone")
                await end_leases(self.link.name, self.target)
                continue
            if deadline.has_passed and (held or is_open or logs != before):
                raise await self._not_quiet_error(logs, before, held=held, is_open=is_open)
            before = logs
            await asyncio.sleep(LOOK_S)

    async def _find_open(self, logs: Mapping[int, LogRange]) -> list[int]:
        """Return the partitions with open transactions, by their leaders, other than those left by lanes."""
        behind = {(str(self.topic), partition): log for partition, log in logs.items() if log.stable_end < log.end}
        if not behind:
            return []
        found = await transactions_holding(self.target, behind)
        others = {each.partition for each in found if not (self.is_to_go and each.state is TransactionState.MIRRORED)}
        firsts: dict[int, int] = {}
        for each in found:
            firsts[each.partition] = min(each.first_offset, firsts.get(each.partition, each.first_offset))
        # A transaction that does not begin at the last stable offset was not reported, or has ended meanwhile.
        at_stable_end = {partition for (_, partition), log in behind.items() if firsts.get(partition) == log.stable_end}
        return sorted(partition for _, partition in behind if partition in others or partition not in at_stable_end)

    async def _not_quiet_error(
        self, logs: Mapping[int, LogRange], before: Mapping[int, LogRange], *, held: bool, is_open: list[int]
    ) -> GateNotMet:
        if held:
            return GateNotMet(
                f"link {self.link.name} has not let go of {self.topic} within {self.timeout_s:g} s",
                hint="isthmus status shows the work of its controller; then run the command again.",
            )
        if is_open:
            keys = [(self.topic, partition) for partition in is_open]
            return build_undecided(self.target, keys, await owners_in(self.target, keys), is_to_stay=not self.is_to_go)
        return await self._written_error(logs, before)

    async def _written_error(self, logs: Mapping[int, LogRange], before: Mapping[int, LogRange]) -> GateNotMet:
        moved = [(self.topic, partition) for partition, log in logs.items() if log.end != before[partition].end]
        return await build_written_to(self.target, moved)

    async def require_unmoved(self, before: Mapping[int, LogRange]) -> None:
        """Require that the logs still end where they did, and that there are no more of them.

        :raises GateNotMet: Records were written, or partitions added.
        :raises ClusterError: The target does not answer.
        """
        shown = (await self.target.metadata([self.topic])).topics[self.topic]
        if len(shown.partitions) > len(before):
            raise GateNotMet(
                f"{self.topic} has {len(shown.partitions)} partitions by now, of which {len(before)} were looked at",
                hint="A client that adds partitions there means to write to it. If none does, run the command again.",
            )
        found = await self._of(before)
        if any(log.end != before[partition].end for partition, log in found.items()):
            raise await self._written_error(found, before)

    async def _logs(self, there: TopicDescription) -> dict[int, LogRange]:
        return await self._of(range(there.partition_count))

    async def _of(self, partitions: Iterable[int]) -> dict[int, LogRange]:
        found = await log_ranges(self.target, [(self.topic, number) for number in partitions])
        for error in found.errors.values():
            raise error
        return {partition: log for (_, partition), log in found.values.items()}
