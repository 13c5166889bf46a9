"""The groups of a running link: followed at the source, carried to the target, beside the data."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Collection, Mapping
from typing import Final

from isthmus.errors import ClusterError, Fenced
from isthmus.groups.agenda import GroupAgenda
from isthmus.groups.committing import GroupCommitter
from isthmus.groups.execution import apply_groups
from isthmus.groups.memory import GroupMemory
from isthmus.groups.notes import notes_of
from isthmus.groups.plan import GroupPlan, GroupsPlan
from isthmus.groups.positions.carrying import Standing
from isthmus.groups.review import GroupReview, Review
from isthmus.groups.trees.distribution import DistributedReview
from isthmus.kafka.client import Client
from isthmus.kafka.commits.source import CommitSource
from isthmus.ledger.documents.kinds import Document, TopicDocument
from isthmus.ledger.link import LinkLedger
from isthmus.memory.links import pauses
from isthmus.model.link import Link
from isthmus.model.loop import GROUPS_TASK
from isthmus.model.problem import Problem, problem_of
from isthmus.model.process.timings import USUAL, Timings
from isthmus.topics.checks.unmatched import tell_unmatched, unmatched_groups

_log = logging.getLogger(__name__)
WAIT_S: Final = 0.25
_DOCUMENTS_MAX: Final = 100


class GroupLoop:
    """Carries the groups of one link as long as `run` is kept running. A failure here ends nothing else.

    `problem` is why the groups cannot be carried now.
    """

    def __init__(
        self, link: Link, source: Client, target: Client, ledger: LinkLedger, timings: Timings = USUAL
    ) -> None:
        self._timings = timings
        self.problem: Problem | None = None
        self._link = link
        self._source, self._target = source, target
        self._has_told_unmatched = False
        self._ledger = ledger
        self._commits = CommitSource(source, link.groups.matches, link.groups.literals)
        self._committer = GroupCommitter(target, link.name)
        self._memory = GroupMemory(link.name, ledger.documents)
        self._review = review_of(link, source, target, self._memory, ledger.documents)
        self._groups: dict[str, GroupPlan] = {}
        self._topics: frozenset[object] = frozenset()
        self._agenda = GroupAgenda(timings.groups_s)
        self._remember_at = self._wanted_at = 0.0

    @property
    def plan(self) -> GroupsPlan:
        """The standing of the groups."""
        link = self._link
        return GroupsPlan(
            link=link.name,
            source=link.source.alias,
            target=link.target.alias,
            way=link.groups.way,
            groups=tuple(self._groups[group] for group in sorted(self._groups)),
            problem=self.problem,
            notes=notes_of(link, self._commits.reason, self._committer.reason),
            names=link.names,
        )

    def begin_pass(self) -> int:
        """Request one more look at all groups from now on; return the number of that pass."""
        self._wanted_at = time.monotonic()
        return self._agenda.want_pass()

    def has_ended(self, number: int) -> bool:
        """Whether a pass over all groups is over, and groups that could not be looked at were retried.

        A pass that does not succeed is given up after `patience_s`: `problem` and the groups' standings have the
        reason.
        """
        if time.monotonic() > self._wanted_at + self._timings.patience_s:
            return True
        is_settled = not any(map(_is_pending, self._groups.values())) and not self._commits.known.unheard
        return self._agenda.has_ended(number) and self.problem is None and is_settled

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
                    await asyncio.sleep(self._timings.outage_s)
                except Exception as error:  # noqa: BLE001 - a bug in here must not stop the data
                    _log.exception("groups of link %s", self._link.name)
                    message = f"{type(error).__name__}: {error}"
                    self.problem = Problem(message, "This is a bug in Isthmus: please report it.")
                    await asyncio.sleep(self._timings.outage_s)
        finally:
            self._review.close()
            await self._commits.aclose()

    async def _cycle(self) -> None:
        agenda = self._agenda
        agenda.add(await self._commits.wait_for_changes(WAIT_S))
        if pauses(self._link.name, self._ledger.documents).stops(GROUPS_TASK):
            return
        agenda.add(await self._review.find_news())
        now = time.monotonic()
        if agenda.begin_pass(now):
            await self._review.refresh()
            agenda.add_all(self._commits.known.positions.keys() | self._memory.groups | self._review.groups, now)
        if (topics := self._begun_topics()) != self._topics:
            # Commits in a topic from before it was mirrored are carried now, though no client commits there again.
            self._topics = topics
            agenda.add(group for group, plan in self._groups.items() if _reads_elsewhere(plan))
        if due := agenda.list_due(now, {group: plan.standing for group, plan in self._groups.items()}):
            await self._carry(due)
            await self._clear()
        agenda.end_look(due)
        if not self._has_told_unmatched:
            tell_unmatched(self._link, await unmatched_groups(self._link, self._source))
            self._has_told_unmatched = True
        if now >= self._remember_at:
            self._remember_at = now + self._timings.remember_s
            await self.remember()

    def _begun_topics(self) -> frozenset[object]:
        """Return the topics that the ledger has as mirrored, with their ids at the target: to notice new ones."""
        known = TopicDocument.find_all(self._ledger.documents.values(), self._link.name)
        return frozenset((each.source_topic, each.target_topic_id) for each in known)

    async def _carry(self, due: Collection[str]) -> None:
        plans = await self._review.send(await self._review.plan(self._commits.known, due))
        for plan in await apply_groups(plans, self._committer, self._memory, self._target, self.remember):
            self._groups[plan.group] = plan
        # Groups that are gone on both sides are forgotten.
        self._groups = {group: plan for group, plan in self._groups.items() if group in self._memory.groups}

    async def _clear(self) -> None:
        """End pending commits of this link that came too late."""
        now = time.monotonic()
        if stuck := [group for group, since in self._review.unstable.items() if now - since > self._timings.unstable_s]:
            await self._committer.clear(stuck)
            for group in stuck:
                del self._review.unstable[group]

    async def remember(self) -> None:
        """Write down what changed.

        :raises Fenced: Another controller has taken the link over.
        :raises ClusterError: The ledger cannot be written.
        """
        while changes := self._memory.changes(_DOCUMENTS_MAX):
            await self._ledger.write(*changes)
            self._memory.note_stored(changes)


def _is_pending(plan: GroupPlan) -> bool:
    """Whether a moment changes how a group stands: maps are written down a little after the records."""
    behind = any(p.is_mapped and p.standing is Standing.CATCHING_UP for p in plan.positions)
    return behind or plan.standing in (Standing.UNAVAILABLE, Standing.WAITING_FOR_MAP)


def _reads_elsewhere(plan: GroupPlan) -> bool:
    """Whether some of a group's positions are in topics that were not mirrored when it was looked at."""
    return any(position.standing is Standing.NOT_MIRRORED for position in plan.positions)


def review_of(
    link: Link, source: Client, target: Client, memory: GroupMemory, documents: Mapping[str, Document]
) -> Review:
    """Return the planner for the groups of a link: a mirror carries positions, a distributor of a tree sends them."""
    if link.distributor is not None:
        return DistributedReview(link, link.distributor, source, target, memory, documents)
    return GroupReview(link, source, target, memory, documents)
