"""Access rules of the source are made at the target, as far as the link's policy carries them (docs/access.md).

The ledger knows which rules Isthmus made. It is told before a rule is created or deleted that this is about to happen,
and afterwards that it has: what was interrupted in between is known to be unknown, and is never deleted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

from isthmus.cluster.access import create_rules, delete_rules, describe_rules, rules_anywhere
from isthmus.cluster.groups import list_groups, listed
from isthmus.cluster.outcomes import Outcomes
from isthmus.control.loops.loop import LinkView
from isthmus.control.loops.rules import ACCESS_LOOP, AccessPlan, AccessView, RememberedRule, RuleChange, access_plan
from isthmus.control.loops.scope import NameScope, group_scope, topic_scope
from isthmus.errors import ClusterError
from isthmus.ledger.access import AccessDocument
from isthmus.ledger.records import Deletion
from isthmus.model.access import AccessPolicy, PermissionType, Rule
from isthmus.model.cluster import Cluster
from isthmus.model.link import Link
from isthmus.model.loop import Change
from isthmus.model.problem import problem_of
from isthmus.model.rights import Resource
from isthmus.wire.client import Client

_RULES_AT_ONCE: Final = 200
_Alter = Callable[[Client, Collection[Rule]], Awaitable[Outcomes[Rule, None]]]


class AccessLoop:
    """Creates at the target what the source has, and deletes what the source has no more and Isthmus made."""

    name = ACCESS_LOOP

    def __init__(self) -> None:
        self._attempted: set[Rule] = set()
        self._plan = AccessPlan()
        self._absent: frozenset[Rule] = frozenset()

    def interval_s(self, link: Link) -> float | None:
        return None if link.access.policy is AccessPolicy.OFF else link.access.interval_s

    async def look(self, view: LinkView) -> Sequence[Change]:
        link = view.link
        resources = [Resource.TOPIC]
        if link.access.policy is AccessPolicy.FULL and link.groups.is_configured:
            resources.append(Resource.GROUP)
        remembered = _remembered(view)
        asked = {*resources, *(memory.rule.resource for memory in remembered)}
        source, target = await asyncio.gather(_described(view.source, resources), _described(view.target, asked))
        scopes = {Resource.TOPIC: _topics(view), Resource.GROUP: await _groups(view, source)}
        known = AccessView(
            settings=link.access,
            scopes=scopes,
            source=source,
            target=target,
            remembered=remembered,
            attempted=self._attempted,
            own_principal=_principal(link.target),
        )
        self._plan = await _confirmed(view, known, access_plan(known), resources)
        return self._plan.changes

    async def apply(self, view: LinkView, changes: Sequence[Change]) -> Sequence[Change]:
        await self._tidy_up(view)
        ours = [change for change in changes if isinstance(change, RuleChange)]
        left: list[Change] = [change for change in ours if change.problem is not None and not change.is_by_design]
        due = [change for change in ours if change.problem is None]
        allowed = [change for change in due if change.rule.permission is PermissionType.ALLOW]
        denied = [change for change in due if change.rule.permission is PermissionType.DENY]
        # In this order nobody may do more at any moment than before or after.
        left += await self._change(view, [change for change in allowed if change.after is None])
        failed = await self._change(view, [change for change in denied if change.after is not None])
        denying = [change.rule for change in failed]
        open_to_all = [c for c in allowed if c.after is not None and not any(d.overrides(c.rule) for d in denying)]
        left += [*failed, *await self._change(view, open_to_all)]
        left += await self._change(view, [change for change in denied if change.after is None])
        return left

    async def _tidy_up(self, view: LinkView) -> None:
        """Remember what has turned out since a request was not answered."""
        plan, self._plan = self._plan, AccessPlan()
        documents = [_document(view.link, memory) for memory in plan.settled]
        # A broker that has not heard of a rule yet says that it is not there: what is to be forgotten is missed twice.
        deletions = [Deletion(_key(view.link, rule)) for rule in plan.forgotten if rule in self._absent]
        self._absent = frozenset(plan.forgotten)
        if documents or deletions:
            await view.remember(*documents, *deletions)

    async def _change(self, view: LinkView, changes: Sequence[RuleChange]) -> list[RuleChange]:
        left: list[RuleChange] = []
        for begin in range(0, len(changes), _RULES_AT_ONCE):
            some = {change.rule: change for change in changes[begin : begin + _RULES_AT_ONCE]}
            alter = delete_rules if next(iter(some.values())).after is None else create_rules
            errors = await self._alter(view, some, alter)
            left += [replace(some[rule], problem=problem_of(error)) for rule, error in errors.items()]
        return left

    async def _alter(
        self, view: LinkView, changes: Mapping[Rule, RuleChange], alter: _Alter
    ) -> Mapping[Rule, ClusterError]:
        """Say what is about to happen, do it, and say what came of it; what was refused."""

        def document(rule: Rule, *, is_certain: bool) -> AccessDocument:
            return _document(view.link, RememberedRule(rule=rule, origin=changes[rule].origin, is_certain=is_certain))

        await view.remember(*[document(rule, is_certain=False) for rule in changes])
        self._attempted.update(changes)
        outcomes = await alter(view.target, changes)
        was_there = [rule for rule, change in changes.items() if change.before is not None]
        is_there = {
            *(rule for rule in changes if rule in outcomes.errors and rule in was_there),
            *(rule for rule in outcomes.values if rule not in was_there),
        }
        await view.remember(
            *[document(rule, is_certain=True) for rule in changes if rule in is_there],
            *[Deletion(_key(view.link, rule)) for rule in changes if rule not in is_there],
        )
        self._attempted.difference_update(changes)
        return outcomes.errors


def _document(link: Link, memory: RememberedRule) -> AccessDocument:
    return AccessDocument(link=link.name, rule=memory.rule, origin=memory.origin, is_certain=memory.is_certain)


def _key(link: Link, rule: Rule) -> str:
    return "/".join((AccessDocument.KIND, link.name, rule.digest))


def _remembered(view: LinkView) -> tuple[RememberedRule, ...]:
    return tuple(
        RememberedRule(rule=document.rule, origin=document.origin, is_certain=document.is_certain)
        for document in view.documents.values()
        if isinstance(document, AccessDocument) and document.link == view.link.name
    )


def _principal(target: Cluster) -> str | None:
    """Ours at the target, where the login says it; certificates and tokens are named by the brokers."""
    username = target.security.username
    return None if username is None else f"User:{username}"


async def _confirmed(
    view: LinkView, known: AccessView, plan: AccessPlan, resources: Collection[Resource]
) -> AccessPlan:
    """The plan without deletions of what any broker of the source still knows: the one that was asked may be behind,
    and for as long as it is rights would be taken away, or a DENY that keeps others out.
    """
    if all(change.after is not None for change in plan.changes):
        return plan
    kept = [change for change in plan.changes if change.after is not None]
    try:
        told = await asyncio.gather(*(rules_anywhere(view.source, resource) for resource in sorted(resources)))
    except ClusterError as error:
        postponed = [change for change in plan.changes if change.after is None]
        kept += [replace(change, problem=change.problem or problem_of(error)) for change in postponed]
    else:
        anywhere = access_plan(replace(known, source=frozenset(known.source).union(*told)))
        kept += [change for change in anywhere.changes if change.after is None]
    return replace(plan, changes=tuple(kept))


async def _described(client: Client, resources: Collection[Resource]) -> frozenset[Rule]:
    found = await asyncio.gather(*(describe_rules(client, resource) for resource in sorted(resources)))
    return frozenset().union(*found)


def _topics(view: LinkView) -> NameScope:
    mirrored = {topic.source_topic: topic.topic for topic in view.plan.topics if topic.is_copied}
    return topic_scope(view.link, mirrored)


async def _groups(view: LinkView, rules: Collection[Rule]) -> NameScope:
    is_asked = any(rule.resource is Resource.GROUP and rule.prefix is not None for rule in rules)
    return group_scope(view.link, sorted(listed(await list_groups(view.source))) if is_asked else ())
