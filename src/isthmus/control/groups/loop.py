"""A link's groups while it runs: followed at the source, carried to the target, beside the data."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from isthmus.cluster.commits.poller import CARRIED_TYPES
from isthmus.cluster.commits.source import CommitSource
from isthmus.cluster.groups import describe_groups
from isthmus.control.groups.committing import GroupCommitter
from isthmus.control.groups.execution import apply_groups
from isthmus.control.groups.observation import mirrored_topics, observe_groups
from isthmus.control.groups.plan import GroupPlan, GroupsPlan
from isthmus.control.groups.planning import gone, plan_groups, troubled, unsupported
from isthmus.control.groups.recollection import GroupMemory
from isthmus.control.observation import problem_of
from isthmus.control.recollection import paused_topics
from isthmus.errors import ClusterError, Fenced
from isthmus.ledger.link import LinkLedger
from isthmus.model.carrying import Standing
from isthmus.model.group import GroupState
from isthmus.model.lane import Problem
from isthmus.model.link import Link
from isthmus.wire.client import Client

_log = logging.getLogger(__name__)
WAIT_S: Final = 0.25
ALL_S: Final = 10.0
"""How often all groups are looked at, whether they committed or not."""
RAISE_S: Final = 0.5
"""How often groups whose records are on their way are looked at."""
AGAIN_S: Final = 2.0
REMEMBER_S: Final = 2.0
_DOCUMENTS_MAX: Final = 100
_SOON: Final = frozenset({Standing.CATCHING_UP, Standing.UNAVAILABLE})


class GroupLoop:
    """Carries the groups of one link as long as `run` is kept running. Nothing that goes wrong here ends anything else.

    `problem` is why the groups cannot be carried at the moment.
    """

    def __init__(self, link: Link, source: Client, target: Client, ledger: LinkLedger) -> None:
        self.problem: Problem | None = None
        self._link = link
        self._source, self._target = source, target
        self._ledger = ledger
        self._commits = CommitSource(source, link.groups.matches, link.groups.literals)
        self._committer = GroupCommitter(target, link.name)
        self._memory = GroupMemory(link.name, ledger.documents)
        self._groups: dict[str, GroupPlan] = {}
        self._mirrored: Mapping[str, str] = {}
        self._changed: set[str] = set()
        self._all_at = self._soon_at = self._remember_at = 0.0

    @property
    def plan(self) -> GroupsPlan:
        """How the groups stand."""
        link = self._link
        return GroupsPlan(
            link=link.name,
            source=link.source.alias,
            target=link.target.alias,
            way=link.groups.way,
            groups=tuple(self._groups[group] for group in sorted(self._groups)),
            problem=self.problem,
        )

    async def run(self) -> None:
        """Carry groups until cancelled.

        :raises Fenced: Another controller has taken the link over.
        """
        try:
            while True:
                try:
                    await self._cycle()
                    self.problem = None
                except Fenced:
                    raise
                except ClusterError as error:
                    self.problem = problem_of(error)
                    await asyncio.sleep(AGAIN_S)
                except Exception as error:  # noqa: BLE001 - a bug in here must not stop the data
                    _log.exception("groups of link %s", self._link.name)
                    message = f"{type(error).__name__}: {error}"
                    self.problem = Problem(message, "This is a bug in Isthmus: please report it.")
                    await asyncio.sleep(AGAIN_S)
        finally:
            await self._commits.aclose()

    async def _cycle(self) -> None:
        self._changed |= await self._commits.changed(WAIT_S)
        if None in paused_topics(self._link.name, self._ledger.documents):
            return
        now = time.monotonic()
        if now >= self._all_at:
            self._mirrored = await mirrored_topics(self._link, self._ledger.documents, self._source, self._target)
            self._changed |= self._commits.positions.keys() | self._memory.groups
            self._all_at = now + ALL_S
        if now >= self._soon_at:
            self._changed |= {group for group, plan in self._groups.items() if plan.standing in _SOON}
            self._soon_at = now + RAISE_S
        if self._changed:
            due, self._changed = self._changed, set()
            await self._carry(due)
        if now >= self._remember_at:
            await self.remember()
            self._remember_at = now + REMEMBER_S

    async def _carry(self, due: Collection[str]) -> None:
        positions = self._commits.positions
        known = {group: positions[group] for group in due if group in positions}
        if any(topic not in self._mirrored for found in known.values() for topic, _ in found):
            self._mirrored = await mirrored_topics(self._link, self._ledger.documents, self._source, self._target)
        view = await observe_groups(self._link, known, self._mirrored, self._source, self._target)
        for group in view.groups:
            if group.committed is not None:
                self._memory.settle(group.group, group.committed)
        plans = [*plan_groups(view, self._memory.written), *await self._others(due, known)]
        for plan in await apply_groups(plans, self._committer, self._memory, self._target):
            if plan.delete:
                self._groups.pop(plan.group, None)
            else:
                self._groups[plan.group] = plan

    async def _others(self, due: Iterable[str], known: Collection[str]) -> list[GroupPlan]:
        """Groups without a position: they cannot be read, keep it elsewhere, or are gone."""
        found, missing = [], []
        listings, settings = self._commits.listings, self._link.groups
        for group in {*due, *self._commits.errors, *listings} - set(known):
            name = settings.naming.to_target(group) or group
            if group in self._commits.errors:
                found.append(troubled(group, name, self._commits.errors[group]))
            elif group in listings and listings[group].type not in CARRIED_TYPES:
                found.append(unsupported(group, name, listings[group].type))
            elif group in self._memory.groups and settings.matches(group):
                missing.append(group)
        return found + await self._gone(missing)

    async def _gone(self, missing: Collection[str]) -> list[GroupPlan]:
        """Those of which their coordinators at the source say that they do not exist."""
        settings = self._link.groups
        described = (await describe_groups(self._source, missing)).values
        return [
            gone(group, settings.naming.to_target(group) or group, delete=settings.delete_at_target)
            for group, description in described.items()
            if description.state is GroupState.DEAD
        ]

    async def remember(self) -> None:
        """Write down what changed.

        :raises Fenced: Another controller has taken the link over.
        :raises ClusterError: The ledger cannot be written.
        """
        while changes := self._memory.changes(_DOCUMENTS_MAX):
            await self._ledger.write(*changes)
            self._memory.taken(changes)
