"""Positions of groups at the source and at the follower, compared as long as somebody waits for them to be equal."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from isthmus.cluster.groups import Positions, committed_offsets
from isthmus.cluster.offsets import log_ranges
from isthmus.errors import ClusterError
from isthmus.gateway.duties import SyncLink
from isthmus.wire.client import Client
from isthmus.wire.offsets import PartitionKey

_log = logging.getLogger(__name__)
_AGAIN_S: Final = 0.005
_RETRY_S: Final = 0.1
_STARTS_S: Final = 1.0
_NOWHERE: Final = -1

_Apart = dict[PartitionKey, tuple[int, int]]
Wanted = dict[PartitionKey, int | None]
"""Positions that are to be at the follower, `None` where there is to be none."""


@dataclass(slots=True, eq=False)
class _Awaited:
    """Positions of a group that somebody waits for; all it has on topics of the link where `keys` is `None`. The source
    was `seen` there first, and those that have `come` to the follower since, by its partitions, are waited for no more.
    """

    watch: PositionWatch
    group: str
    keys: Collection[PartitionKey] | None
    wake: Callable[[], None]
    seen: dict[PartitionKey, int] = field(default_factory=dict)
    come: set[PartitionKey] = field(default_factory=set)

    def left(self, apart: _Apart, wanted: Collection[PartitionKey]) -> _Apart:
        """What has not come yet of what is wanted. Whoever commits again and again is equal on both sides at no moment:
        what lies between where the source was seen first and where it is now was committed since.
        """
        passed = {key for key, (to_be, now) in apart.items() if 0 <= self.seen.get(key, _NOWHERE) <= now <= to_be}
        self.come |= passed | (set(wanted) - apart.keys())
        for key, (to_be, _) in apart.items():
            self.seen.setdefault(key, to_be)
        return {key: found for key, found in apart.items() if key not in self.come}

    def cancel(self) -> None:
        """Wait no more."""
        self.watch.leave(self)


class PositionWatch:
    """The positions of one link, asked of the coordinators on both sides while somebody waits. What was committed at a
    `node` of the source is asked of that one: if it coordinates the group no more, whoever commits again does so where
    that is coordinated by then. One that does not answer delays nobody else.

    They are compared with what the source has now, for equality: a commit may go back, and one that was overtaken never
    comes. While the source moves on, what it has had since will do. Only where retention has taken the records at the
    follower they are as near as its log lets them be.
    """

    def __init__(self, link: SyncLink, source: Client, node: int | None = None) -> None:
        self.link = link
        self._source = source
        self._node = node
        self._waiting = set[_Awaited]()
        self._asking: asyncio.Task[None] | None = None

    async def aclose(self) -> None:
        """Ask no more."""
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)

    def wait(self, group: str, keys: Collection[PartitionKey] | None, wake: Callable[[], None]) -> _Awaited:
        """Call `wake` once the follower has what the source has."""
        awaited = _Awaited(self, group, keys, wake)
        self._waiting.add(awaited)
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask_always())
        return awaited

    def leave(self, awaited: _Awaited) -> None:
        """One waits no more."""
        self._waiting.discard(awaited)

    async def _ask_always(self) -> None:
        while self._waiting:
            pause_s = _RETRY_S
            try:
                if await self._ask(set(self._waiting)):
                    pause_s = _AGAIN_S
            except ClusterError as error:
                _log.warning("%s: positions of groups cannot be compared: %s", self.link.name, error)
            except Exception:  # noqa: BLE001 - whoever waits goes on waiting
                _log.exception("%s: positions of groups cannot be compared", self.link.name)
            await asyncio.sleep(pause_s)

    async def _ask(self, waiting: Collection[_Awaited]) -> bool:
        """Compare once for all who wait; whether the source has told of all of them. What it tells was committed at the
        earliest when they began: positions of a transaction whose end is still being written are waited for.
        """
        groups = {each.group for each in waiting}
        here = (await committed_offsets(self._source, groups, require_stable=True, node=self._node)).values
        left = dict[_Awaited, tuple[str, Wanted]]()
        for each in waiting:
            name = self.link.target_group(each.group)
            if each.group in here:
                wanted = self._wanted(each.keys, here[each.group])
                if name is None or not wanted:
                    self._wake(each)
                else:
                    left[each] = name, wanted
        if left:
            target = self.link.follower.client
            there = await committed_offsets(target, {name for name, _ in left.values()})
            apart = {
                each: each.left(_apart(there.values[name], wanted), wanted)
                for each, (name, wanted) in left.items()
                if name in there.values
            }
            for each in [each for each, found in apart.items() if not found]:
                del apart[each]
                self._wake(each)
            starts = await self._starts(
                {key for found in apart.values() for key, (to_be, now) in found.items() if 0 <= to_be < now}
            )
            for each, found in apart.items():
                if all(0 <= to_be < now <= starts.get(key, -1) for key, (to_be, now) in found.items()):
                    self._wake(each)
        return groups <= here.keys()

    async def _starts(self, keys: Collection[PartitionKey]) -> Mapping[PartitionKey, int]:
        """Where partitions of the follower begin: a position before that is carried as the first one that is there."""
        found = (await log_ranges(self.link.follower.client, keys, timeout_s=_STARTS_S)).values if keys else {}
        return {key: log.start for key, log in found.items()}

    def _wake(self, awaited: _Awaited) -> None:
        if awaited in self._waiting:
            awaited.wake()

    def _wanted(self, keys: Collection[PartitionKey] | None, here: Positions) -> Wanted:
        """Where the follower is to be, by its own partitions, of what the link copies."""
        found: Wanted = {}
        for key in here if keys is None else keys:
            topic = self.link.target_topic(key[0])
            if topic is not None:
                found[topic, key[1]] = here[key].offset if key in here else None
        return found


def _apart(there: Positions, wanted: Wanted) -> _Apart:
    """The positions that are to be there and are not: where each is to be, and where it is, -1 for nowhere."""
    now = {key: there[key].offset if key in there else _NOWHERE for key in wanted}
    to_be = {key: _NOWHERE if offset is None else offset for key, offset in wanted.items()}
    return {key: (to_be[key], now[key]) for key in wanted if to_be[key] != now[key]}
