"""The groups of links, looked at and carried once: the work of `isthmus groups`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import partial

from isthmus.errors import ClusterError, ConfigError, PlanRefused
from isthmus.groups.away import remembered_groups
from isthmus.groups.committing import GroupCommitter
from isthmus.groups.drill import GroupDrill, drill, is_tried
from isthmus.groups.execution import apply_groups
from isthmus.groups.loop import review_of
from isthmus.groups.memory import GroupMemory
from isthmus.groups.notes import notes_of
from isthmus.groups.plan import GroupPlan, GroupsPlan
from isthmus.groups.review import Review
from isthmus.groups.sealing import group_key
from isthmus.kafka.client import Client
from isthmus.kafka.commits.source import CommitSource
from isthmus.kafka.session import ClientSession
from isthmus.ledger.log import LedgerWriter
from isthmus.ledger.topic import on_topic
from isthmus.memory.closed import read_closed
from isthmus.memory.filtering import in_force
from isthmus.memory.identity import cluster_ids
from isthmus.memory.links import read_ledger
from isthmus.model.configuration import LedgerSettings
from isthmus.model.link import Link
from isthmus.model.problem import Problem, problem_of

_DOCUMENTS_MAX = 100


class AsyncGroups:
    """The consumer groups of a fabric's links: `fabric.groups`."""

    def __init__(
        self, links: Callable[[str | None], tuple[Link, ...]], ledger: LedgerSettings, session: ClientSession
    ) -> None:
        self._links = links
        self._ledger = ledger
        self._session = session

    async def plan(self, *, link: str | None = None, group: str | None = None) -> tuple[GroupsPlan, ...]:
        """Return how the groups stand on both sides, and what `sync` would write. Nothing is changed.

        A cluster that does not answer is a problem of its links, not an error.

        :raises ConfigError: There is no link of that name.
        :raises PlanRefused: No link carries a group of that name.
        """
        return await self._each(link, group, dry_run=True)

    async def sync(self, *, link: str | None = None, group: str | None = None) -> tuple[GroupsPlan, ...]:
        """Carry the groups once; return how they stand then. While links run their controllers do this all the time.

        :raises ConfigError: There is no link of that name.
        :raises PlanRefused: No link carries a group of that name.
        """
        return await self._each(link, group, dry_run=False)

    async def drill(
        self,
        group: str,
        *,
        link: str | None = None,
        records: int = 1000,
        on_step: Callable[[str], None] = lambda _: None,
    ) -> GroupDrill:
        """Try a failover of a group with a scratch group: what would be skipped, and what would be read again.

        `records` is how many are compared in each partition; `on_step` is called with each step in words.

        :raises ConfigError: There is no link of that name.
        :raises PlanRefused: No link carries a group of that name.
        :raises ClusterError: A cluster refused or did not answer.
        """
        links = self._links(link)
        found: tuple[Link, GroupsLook, GroupPlan] | None = None
        for each in await in_force(links, self._session):
            if not each.groups.matches(group):
                continue
            on_step(f"looking at both sides of {each.name}")
            look = await look_at(each, group, self._session)
            if look.plans:
                # Records of a returning copy are compared by the link that made it.
                own = tuple(p for p in look.plans[0].positions if not p.is_returning)
                this = each, look, replace(look.plans[0], positions=own)
                # In a tree the newest position comes to most targets by another distributor.
                if each.distributor is None or any(map(is_tried, own)):
                    found = this
                    break
                found = found or this
        if found is None:
            raise _unknown(group, links, [])
        chosen, look, plan = found
        return await drill(chosen, plan, look.source, look.target, look.review.maps, records=records, on_step=on_step)

    def key(self, group: str, *, link: str | None = None) -> bytes:
        """Return the key that opens the values of one group in an encrypted copy of positions; no cluster is asked.

        Without `link` it is that of the only source for which there is a secret.

        :raises ConfigError: There is no link of that name, or no secret, or there are several.
        """
        secrets = {
            each.source.alias: each.source.offsets_copy_secret
            for each in self._links(link)
            if each.source.offsets_copy_secret is not None
        }
        if len(secrets) != 1:
            raise ConfigError(
                "several clusters have an offsets_copy_secret" if secrets else "no source has an offsets_copy_secret",
                hint=f"Give --link: there are {', '.join(secrets)}."
                if secrets
                else "Give clusters.<alias>.offsets_copy_secret: docs/groups.md.",
            )
        (secret,) = secrets.values()
        return group_key(secret, group)

    async def _each(self, link: str | None, group: str | None, *, dry_run: bool) -> tuple[GroupsPlan, ...]:
        links = self._links(link)
        chosen = await in_force(links, self._session)
        found = await asyncio.gather(*(self._one(each, group, dry_run=dry_run) for each in chosen))
        if group is not None and not any(plan.groups or plan.problem for plan in found):
            raise _unknown(group, links, [name for plan in await self.plan(link=link) for name in _names(plan)])
        return tuple(plan for plan in found if group is None or plan.groups or plan.problem)

    async def _one(self, link: Link, group: str | None, *, dry_run: bool) -> GroupsPlan:
        plan = GroupsPlan(
            link=link.name, source=link.source.alias, target=link.target.alias, way=link.groups.way, names=link.names
        )
        if not link.groups.is_configured:
            return plan
        try:
            look = await look_at(link, group, self._session)
            plan = replace(plan, problem=look.problem)
            if dry_run:
                there = [document.namespace for document in await read_closed(link, look.target)]
                shut = tuple(each for each in there if each.kind == "group")
                return replace(plan, groups=tuple(look.plans), closed=shut)
            committer = GroupCommitter(look.target, link.name)
            try:
                plans = await look.review.send(look.plans)
            finally:
                look.review.close()
            remember = partial(self._remember, look)
            groups = await apply_groups(plans, committer, look.memory, look.target, remember)
            await remember()
            return replace(plan, groups=groups, notes=notes_of(link, "", committer.reason))
        except PlanRefused as error:
            return replace(plan, problem=problem_of(error))
        except ClusterError as error:
            return replace(plan, problem=problem_of(error), groups=await _last_known(link, group, self._session))

    async def _remember(self, look: GroupsLook) -> None:
        writer = LedgerWriter(look.target)
        try:
            while changes := look.memory.changes(_DOCUMENTS_MAX):
                append = partial(writer.append, changes)
                await on_topic(look.target, append, replication_factor=self._ledger.replication_factor)
                look.memory.note_stored(changes)
        finally:
            writer.close()


@dataclass(frozen=True, slots=True)
class GroupsLook:
    """A link's groups at one moment. `problem` is why there may be more of them."""

    source: Client
    target: Client
    memory: GroupMemory
    plans: list[GroupPlan]
    review: Review
    problem: Problem | None = None


async def look_at(link: Link, group: str | None, session: ClientSession) -> GroupsLook:
    """Look at all groups of a link, or at one.

    :raises ClusterError: A cluster as a whole did not answer.
    :raises PlanRefused: Both clusters of the link are one.
    """
    wanted = partial(_is_wanted, link, group)
    source, target = session.client(link.source), session.client(link.target)
    await cluster_ids(link, source, target)
    documents = (await read_ledger(target)).documents()
    memory = GroupMemory(link.name, documents)
    followed = CommitSource(source, wanted, [name for name in link.groups.literals if wanted(name)])
    try:
        await followed.wait_for_changes(0)
    finally:
        await followed.aclose()
    commits = followed.known
    review = review_of(link, source, target, memory, documents)
    await review.refresh()
    known = {name for name in memory.groups | review.groups if wanted(name)}
    plans = await review.plan(commits, commits.positions.keys() | known)
    # A listed group is known, no matter which brokers did not answer.
    is_known = group is not None and (group in commits.listings or not link.groups.matches(group))
    unheard = None if is_known else next(iter(commits.unheard.values()), None)
    problem = None if unheard is None else _unheard_problem(unheard)
    return GroupsLook(source, target, memory, sorted(plans, key=lambda plan: plan.group), review, problem)


def _unheard_problem(error: ClusterError) -> Problem:
    """Return why groups may be missing that were not carried before."""
    return Problem(f"not all groups of the source are known: {error.message}", error.hint)


def _is_wanted(link: Link, group: str | None, name: str) -> bool:
    return link.groups.matches(name) and group in (None, name)


async def _last_known(link: Link, group: str | None, session: ClientSession) -> tuple[GroupPlan, ...]:
    """Return what is known of the groups although a cluster is away: nothing, where that is the target."""
    try:
        target = session.client(link.target)
        return tuple(await remembered_groups(link, target, partial(_is_wanted, link, group)))
    except ClusterError:
        return ()


def _names(plan: GroupsPlan) -> list[str]:
    return [group.group for group in plan.groups]


def _unknown(group: str, links: tuple[Link, ...], known: list[str]) -> PlanRefused:
    if not any(link.groups.is_configured for link in links):
        return PlanRefused(
            "no link carries consumer groups", hint="Name them in the configuration: links[].groups.include."
        )
    near = get_close_matches(group, known, n=1)
    hint = f"Did you mean {near[0]}?" if near else "isthmus groups list shows those that are carried."
    return PlanRefused(f"no link carries a group named {group!r} that has a position", hint=hint)
