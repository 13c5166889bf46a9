"""Compare positions of groups at the source and at the follower while they are waited for to become equal."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from isthmus.errors import ClusterError
from isthmus.gateway.frames.duties import SyncLink
from isthmus.kafka.client import Client
from isthmus.kafka.groups.groups import CommittedOffsets, Positions, committed_offsets
from isthmus.kafka.log.offsets import log_ranges
from isthmus.model.naming import SourceTopic, SourceTopicPartition, TargetTopic, TargetTopicPartition

_log = logging.getLogger(__name__)
_AGAIN_S: Final = 0.005
_RETRY_S: Final = 0.1
_STARTS_S: Final = 1.0
_NOWHERE: Final = -1

_Apart = dict[TargetTopicPartition, tuple[int, int]]
Wanted = dict[TargetTopicPartition, int | None]
"""The positions that the follower is to have, `None` for one that it is not to have."""


@dataclass(slots=True, eq=False)
class _GroupWait:
    """A wait for positions of a group, for all on topics of the link if `keys` is `None`. By partitions of the
    follower, `seen` are the positions first seen at the source, and those that have `come` since are no longer waited
    for.
    """

    watch: PositionWatch
    group: str
    keys: Collection[SourceTopicPartition] | None
    wake: Callable[[], None]
    seen: dict[TargetTopicPartition, int] = field(default_factory=dict)
    come: set[TargetTopicPartition] = field(default_factory=set)

    def find_missing(self, apart: _Apart, wanted: Collection[TargetTopicPartition]) -> _Apart:
        """Return the wanted positions that have not come yet. A group that commits all the time may never be equal on
        both sides: a position between the first one seen at the source and the current one was committed since.
        """
        passed = {key for key, (to_be, now) in apart.items() if 0 <= self.seen.get(key, _NOWHERE) <= now <= to_be}
        self.come |= passed | (set(wanted) - apart.keys())
        for key, (to_be, _) in apart.items():
            self.seen.setdefault(key, to_be)
        return {key: found for key, found in apart.items() if key not in self.come}

    def cancel(self) -> None:
        """Cancel the wait."""
        self.watch.leave(self)


class PositionWatch:
    """The positions of one link, asked of the coordinators on both sides while there are waits. Positions committed at
    a `node` of the source are asked of that broker: if it no longer coordinates the group, a client that commits again
    does so at the new coordinator. A broker that does not answer delays no other waits.

    Positions of both sides have to be equal: a commit may go back, and one that was overtaken never comes. While the
    source moves on, any position that it had since counts. Only where retention has deleted the records at the follower
    a position is as near as its log allows.
    """

    def __init__(self, link: SyncLink, source: Client, node: int | None = None) -> None:
        self.link = link
        self._source = source
        self._node = node
        self._waiting = set[_GroupWait]()
        self._asking: asyncio.Task[None] | None = None

    async def aclose(self) -> None:
        """Stop asking."""
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)

    def wait(self, group: str, keys: Collection[SourceTopicPartition] | None, wake: Callable[[], None]) -> _GroupWait:
        """Call `wake` once the follower has the positions of the source."""
        awaited = _GroupWait(self, group, keys, wake)
        self._waiting.add(awaited)
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask_always())
        return awaited

    def leave(self, awaited: _GroupWait) -> None:
        """Remove a wait."""
        self._waiting.discard(awaited)

    async def _ask_always(self) -> None:
        while self._waiting:
            pause_s = _RETRY_S
            try:
                if await self._ask(set(self._waiting)):
                    pause_s = _AGAIN_S
            except ClusterError as error:
                _log.warning("%s: positions of groups cannot be compared: %s", self.link.name, error)
            except Exception:  # noqa: BLE001 - the waits go on
                _log.exception("%s: positions of groups cannot be compared", self.link.name)
            await asyncio.sleep(pause_s)

    async def _ask(self, waiting: Collection[_GroupWait]) -> bool:
        """Compare once for all waits; whether the source answered for all of them. Its answer is no older than the
        waits: the end of a transaction that is still being written is waited for (`require_stable`).
        """
        groups = {each.group for each in waiting}
        answers: CommittedOffsets[SourceTopic] = await committed_offsets(
            self._source, groups, require_stable=True, node=self._node
        )
        here = answers.values
        left = dict[_GroupWait, tuple[str, Wanted]]()
        for each in waiting:
            name = self.link.target_group(each.group)
            if each.group in here:
                wanted = self._find_wanted(each.keys, here[each.group])
                if name is None or not wanted:
                    self._wake(each)
                else:
                    left[each] = name, wanted
        if left:
            target = self.link.follower.client
            there: CommittedOffsets[TargetTopic] = await committed_offsets(target, {name for name, _ in left.values()})
            apart = {
                each: each.find_missing(_apart(there.values[name], wanted), wanted)
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

    async def _starts(self, keys: Collection[TargetTopicPartition]) -> Mapping[TargetTopicPartition, int]:
        """Return the log starts of the follower: a position before the start is carried as the start."""
        found = (await log_ranges(self.link.follower.client, keys, timeout_s=_STARTS_S)).values if keys else {}
        return {key: log.start for key, log in found.items()}

    def _wake(self, awaited: _GroupWait) -> None:
        if awaited in self._waiting:
            awaited.wake()

    def _find_wanted(self, keys: Collection[SourceTopicPartition] | None, here: Positions[SourceTopic]) -> Wanted:
        """Find the positions that the follower is to have, by its own partitions, on topics that the link copies."""
        found: Wanted = {}
        for key in here if keys is None else keys:
            topic = self.link.target_topic(key[0])
            if topic is not None:
                found[topic, key[1]] = here[key].offset if key in here else None
        return found


def _apart(there: Positions[TargetTopic], wanted: Wanted) -> _Apart:
    """Find the positions that differ: where each is to be, and where it is, -1 for nowhere."""
    now = {key: there[key].offset if key in there else _NOWHERE for key in wanted}
    to_be = {key: _NOWHERE if offset is None else offset for key, offset in wanted.items()}
    return {key: (to_be[key], now[key]) for key in wanted if to_be[key] != now[key]}
