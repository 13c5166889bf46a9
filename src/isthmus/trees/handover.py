"""A distributor goes over to another leaf of its subtree, in good order: see `model.switching`.

Its lanes are held, so that the position of each is certain. Then the subtree is followed, hop by hop, until every leaf
has all that was sent; and then the other leaf is written to the ledger of the source as the target, with the offsets.
Only that result is stored: another controller begins from the start, and finds the same.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Final

from isthmus.kafka.client import Client
from isthmus.kafka.log.listoffsets import PartitionKey
from isthmus.kafka.log.offsets import log_ranges
from isthmus.kafka.session import ClientSession
from isthmus.lanes.maps import lane_cursors
from isthmus.loops.loop import LinkView
from isthmus.memory.switching import lacking, lost_there, write_choice
from isthmus.model.kafka.log import LogRange
from isthmus.model.link import Link
from isthmus.model.loop import Change
from isthmus.model.problem import Problem
from isthmus.model.trees.switching import Onward, Stopped, TargetChoice, stopped_at

_INTERVAL_S: Final = 1.0
_PATIENCE_S: Final = 15.0
"""A wait is reported only when it takes longer."""


class HandoverLoop:
    """Lets one distributor go over to another leaf where that is wanted."""

    name = "handover"

    def __init__(self) -> None:
        self._stopped = Stopped()
        self._logs: dict[str, Mapping[PartitionKey, LogRange]] = {}
        self._passed: set[str] = set()
        self._onward: tuple[Onward, ...] = ()
        self._serial = 0
        self._since = 0.0

    def interval_s(self, link: Link) -> float | None:
        """How often it looks, in seconds, while the distributor is to go over."""
        return None if link.distributor is None or link.distributor.going is None else _INTERVAL_S

    async def look(self, view: LinkView) -> Sequence[Change]:
        """Return the change of the target once nothing prevents it, or what has prevented it for longer than usual.

        :raises ClusterError: A cluster of the subtree cannot be asked.
        """
        going = view.link.distributor and view.link.distributor.going
        if not going:
            return ()
        if self._serial != going.serial:
            self._serial, self._since = going.serial, time.monotonic()
            self._forget()
        if self._onward != going.onward:
            # Another distributor inside the subtree has gone over meanwhile.
            self._onward = going.onward
            self._forget()
        cursors = lane_cursors(view.link.name, view.documents)
        lanes = [lane for topic in view.plan.topics for lane in topic.lanes]
        stopped, reason = stopped_at(lanes, view.reports, cursors, going.serial)
        if stopped != self._stopped:
            self._forget()
            self._stopped = stopped
        reason = reason or await self._find_lacking(view)
        if reason and view.reports and time.monotonic() - self._since < _PATIENCE_S:
            return ()
        hint = f"It goes over to {going.to} when that has changed. --to {view.link.target.alias} leaves it as it was."
        return [
            Change(
                loop=self.name,
                subject=f"link {view.link.name}",
                setting="target",
                before=view.link.target.alias,
                after=going.to,
                problem=Problem(reason, hint) if reason else None,
            )
        ]

    def _forget(self) -> None:
        self._stopped = Stopped()
        self._logs.clear()
        self._passed.clear()

    async def _find_lacking(self, view: LinkView) -> str:
        """Find records sent to the target that a leaf still lacks, in words; "" where none are missing."""
        going = view.link.distributor and view.link.distributor.going
        if not going:
            return ""
        async with ClientSession() as session:
            await self._note(view.target)
            for hop in going.onward:
                if hop.link in self._passed:
                    continue
                client, source = session.client(hop.target), session.client(hop.source)
                if reason := await lacking(source, client, hop.link, self._logs[hop.source.alias]):
                    return reason
                await self._note(client)
                self._passed.add(hop.link)
        cursors = lane_cursors(view.link.name, view.documents)
        return await lost_there(view.target, cursors, self._logs[view.target.cluster.alias])

    async def _note(self, client: Client) -> None:
        """Note the log ends of a cluster, once it has all records that are waited for."""
        alias = client.cluster.alias
        if alias not in self._logs:
            # A distributor leaves names as they are: a key is that of either side.
            keys: list[PartitionKey] = [(each.topic, each.partition) for each in self._stopped.begins]
            found = await log_ranges(client, keys)
            for error in found.errors.values():
                raise error
            self._logs[alias] = found.values

    async def apply(self, view: LinkView, changes: Sequence[Change]) -> Sequence[Change]:
        """Write the other target to the ledger of the source.

        :raises ClusterError: Its ledger cannot be written.
        """
        if not changes or changes[0].problem is not None:
            return changes

        def over(choice: TargetChoice | None) -> TargetChoice | None:
            # The request may have been withdrawn or replaced meanwhile.
            return choice.over(*self._stopped) if choice is not None and choice.serial == self._serial else None

        await write_choice(view.source, view.link.name, over)
        return ()
