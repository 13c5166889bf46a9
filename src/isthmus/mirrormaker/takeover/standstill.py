"""Whether MirrorMaker 2 has stopped: no log that it writes grows, its group has no workers, no transaction is open."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final

from isthmus.deadline import Deadline
from isthmus.errors import GateNotMet
from isthmus.kafka.client import Client
from isthmus.kafka.groups.groups import describe_groups, list_groups, merge_listings
from isthmus.kafka.log.offsets import log_ranges
from isthmus.mirrormaker.takeover.positions import PositionsTopic
from isthmus.model.kafka.log import LogRange
from isthmus.model.naming import TargetTopicPartition, TopicT
from isthmus.model.problem import Problem
from isthmus.model.text.wording import first_few, format_count

_LOOK_S: Final = 0.5
_NAMED_MAX: Final = 5
_STOP: Final = "Stop every worker of MirrorMaker 2 and see that nothing starts it again, then call this again."
_CONNECT: Final = "connect"
"""The protocol type of the groups of Kafka Connect's workers (ConnectProtocol.java)."""
_WHOSE: Final = (
    "The file does not name the group of MirrorMaker 2's workers: if these are those of others, name it by "
    "--workers-group."
)
OnWait = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Standstill:
    """The partitions of the target that MirrorMaker 2 would write, with its positions, and the group of its workers. If
    that is `None`, the groups of all Connect clusters there are waited for; if it is "", none.

    It has stopped when no log has grown for `quiet_s`. Writes, open transactions and remaining workers are waited for
    up to `patience_s`: brokers give up workers and transactions of a killed process only after a while.
    """

    partitions: Collection[TargetTopicPartition]
    positions: PositionsTopic
    worker_group: str | None
    quiet_s: float
    patience_s: float

    async def wait_for_logs(self, target: Client, on_wait: OnWait) -> Mapping[TargetTopicPartition, LogRange]:
        """Wait until the logs stand still, and return them.

        :raises GateNotMet: A log grows, or a transaction is open, for too long.
        :raises ClusterError: The target does not answer.
        """
        deadline = Deadline(max(self.patience_s, self.quiet_s))
        ranges = await ranges_of(target, self.partitions)
        # The quiet time counts between two looks, however long each of them takes.
        since = looked_at = time.monotonic()
        reason = await self._find_unfinished(target, ranges)
        while True:
            if reason is None and looked_at - since >= self.quiet_s:
                return ranges
            if reason is not None and deadline.has_passed:
                raise GateNotMet(f"MirrorMaker 2 has not stopped: {reason.message}", hint=reason.hint)
            still = f"nothing has moved for {time.monotonic() - since:.0f} s of {self.quiet_s:g}"
            on_wait(still if reason is None else reason.message)
            await asyncio.sleep(_LOOK_S)
            looked_at, now = time.monotonic(), await ranges_of(target, self.partitions)
            if (grown := await self._find_growth(ranges, now)) is not None:
                since = time.monotonic()
            # The marker of a transaction that ends moves the log end.
            ranges = now
            reason = await self._find_unfinished(target, ranges) if grown is None else Problem(grown, _STOP)

    async def _find_unfinished(self, target: Client, ranges: Mapping[TargetTopicPartition, LogRange]) -> Problem | None:
        pending = [key for key, log in ranges.items() if log.stable_end < log.end]
        if pending:
            return Problem(f"a transaction is open in {_list_keys(pending)} of {target.cluster.alias}", _STOP)
        groups = await _groups_of_connect(target) if self.worker_group is None else [self.worker_group]
        outcomes = await describe_groups(target, [group for group in groups if group])
        found = {group: len(described.members) for group, described in sorted(outcomes.all().items())}
        busy = [f"group {group} has {format_count(members, 'worker')}" for group, members in found.items() if members]
        if not busy:
            return None
        return Problem(first_few(busy, _NAMED_MAX), _STOP if self.worker_group is not None else f"{_STOP} {_WHOSE}")

    async def require_unmoved(self, target: Client, before: Mapping[TargetTopicPartition, LogRange]) -> None:
        """Require that nothing was written since.

        :raises GateNotMet: Logs have grown; the error names them.
        :raises ClusterError: The target does not answer.
        """
        if (grown := await self._find_growth(before, await ranges_of(target, self.partitions))) is not None:
            raise GateNotMet(f"MirrorMaker 2 has not stopped: {grown}", hint=_STOP)

    async def _find_growth(
        self, before: Mapping[TargetTopicPartition, LogRange], after: Mapping[TargetTopicPartition, LogRange]
    ) -> str | None:
        """Describe what was written in between, `None` if nothing was; positions of other connectors do not count."""
        # An open transaction that ends adds nothing but its marker.
        moved = {
            key: log
            for key, log in after.items()
            if log.end > before[key].end + (before[key].stable_end < before[key].end)
        }
        for key in await self.positions.of_others(before, moved):
            del moved[key]
        if not moved:
            return None
        grown = sum(log.end - before[key].end for key, log in moved.items())
        return (
            f"it is still running, or another producer writes: {_list_keys(moved)} grew by "
            f"{format_count(grown, 'offset')} while it was looked at"
        )


async def _groups_of_connect(client: Client) -> list[str]:
    """List the groups of all Connect clusters that keep their state in a cluster.

    :raises ClusterError: A broker does not list its groups.
    """
    outcomes = await list_groups(client)
    for error in outcomes.errors.values():
        raise error
    return [group for group, listing in merge_listings(outcomes).items() if listing.protocol_type == _CONNECT]


async def ranges_of(client: Client, keys: Collection[tuple[TopicT, int]]) -> dict[tuple[TopicT, int], LogRange]:
    """Read the logs of all these partitions.

    :raises ClusterError: One of them does not answer.
    """
    return dict((await log_ranges(client, keys)).all())


def _list_keys(keys: Collection[TargetTopicPartition]) -> str:
    return first_few((f"{topic}-{partition}" for topic, partition in sorted(keys)), _NAMED_MAX)
