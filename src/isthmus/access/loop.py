"""Access rules of the source are created at the target, as far as the link's policy carries them (docs/access.md).

The ledger records which rules Isthmus created: before a rule is created or deleted as uncertain, and afterwards with
the outcome. A rule whose change was interrupted in between stays uncertain, and is never deleted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

from isthmus.access.rules import (
    ACCESS_LOOP,
    AccessPlan,
    AccessView,
    RememberedRule,
    RuleChange,
    access_plan,
    held_back,
)
from isthmus.access.scope import NameScope, group_scope, topic_scope
from isthmus.errors import ClusterError
from isthmus.kafka.admin.access import create_rules, delete_rules, describe_rules, rules_by_broker
from isthmus.kafka.client import Client
from isthmus.kafka.codes import is_in_doubt
from isthmus.kafka.groups.groups import list_groups, merge_listings
from isthmus.kafka.outcomes import Outcomes
from isthmus.ledger.documents.access import AccessDocument
from isthmus.ledger.link import read_documents
from isthmus.ledger.records import Deletion
from isthmus.loops.loop import LinkView
from isthmus.model.kafka.access import AccessPolicy, PermissionType, Rule
from isthmus.model.kafka.rights import Resource
from isthmus.model.link import Link
from isthmus.model.loop import Change
from isthmus.model.problem import Problem, problem_of

_RULES_AT_ONCE: Final = 200
_BEHIND: Final = Problem(
    "a broker of the source does not know the rule: it is behind, or those are that do",
    "It passes when all that answer know the same: isthmus cluster describe shows brokers that are cut off.",
)
_Alter = Callable[[Client, Collection[Rule]], Awaitable[Outcomes[Rule, None]]]


class AccessLoop:
    """Creates the rules of the source at the target, and deletes those of Isthmus that the source no longer has."""

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
        remembered = _list_remembered(view)
        asked = {*resources, *(memory.rule.resource for memory in remembered)}
        source, target = await asyncio.gather(
            _describe_rules(view.source, resources), _describe_rules(view.target, asked)
        )
        scopes = {Resource.TOPIC: _topic_scope(view), Resource.GROUP: await _group_scope(view, source)}
        known = AccessView(
            settings=link.access,
            scopes=scopes,
            source=source,
            target=target,
            remembered=remembered,
            attempted=self._attempted,
            link=link.name,
            own_principal=link.target.principal,
        )
        plan = access_plan(known)
        if plan.asks_others:
            known = replace(known, held=await _read_held(view))
            plan = access_plan(known)
        self._plan = await _confirm(view, known, plan, resources)
        return self._plan.changes

    async def apply(self, view: LinkView, changes: Sequence[Change]) -> Sequence[Change]:
        await self._tidy_up(view)
        ours = [change for change in changes if isinstance(change, RuleChange)]
        left: list[Change] = [change for change in ours if change.has_failed]
        due = [change for change in ours if change.problem is None]
        allowed = [change for change in due if change.rule.permission is PermissionType.ALLOW]
        denied = [change for change in due if change.rule.permission is PermissionType.DENY]
        # In this order no principal may do more at any moment than before or after.
        left += await self._change(view, [change for change in allowed if change.after is None])
        failed = await self._change(view, [change for change in denied if change.after is not None])
        denying = [change.rule for change in failed]
        open_to_all = [c for c in allowed if c.after is not None and not any(d.overrides(c.rule) for d in denying)]
        left += [*failed, *await self._change(view, open_to_all)]
        deletions = [change for change in (*left, *denied) if isinstance(change, RuleChange) and change.after is None]
        due = [change for change in held_back(deletions) if change not in left]
        left += [change for change in due if change.problem is not None]
        left += await self._change(view, [change for change in due if change.problem is None])
        return left

    async def _tidy_up(self, view: LinkView) -> None:
        """Record the outcome of changes whose requests were not answered."""
        plan, self._plan = self._plan, AccessPlan()
        documents = [_document(view.link, memory) for memory in plan.settled]
        # A broker may not have heard of a rule yet: forget a rule only when it was absent in two looks.
        deletions = [
            Deletion(AccessDocument.key_of(view.link.name, rule.digest))
            for rule in plan.forgotten
            if rule in self._absent
        ]
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
        """Record the changes as uncertain, make them, and record their outcome; return the errors."""

        def document(rule: Rule, *, is_certain: bool) -> AccessDocument:
            return _document(view.link, RememberedRule(rule=rule, origin=changes[rule].origin, is_certain=is_certain))

        await view.remember(*[document(rule, is_certain=False) for rule in changes])
        self._attempted.update(changes)
        outcomes = await alter(view.target, changes)
        # Changes that may have been made all the same stay uncertain.
        known = [rule for rule in changes if rule not in outcomes.errors or not is_in_doubt(outcomes.errors[rule])]
        was_there = [rule for rule, change in changes.items() if change.before is not None]
        is_there = {
            *(rule for rule in known if rule in outcomes.errors and rule in was_there),
            *(rule for rule in outcomes.values if rule not in was_there),
        }
        await view.remember(
            *[document(rule, is_certain=True) for rule in known if rule in is_there],
            *[Deletion(AccessDocument.key_of(view.link.name, rule.digest)) for rule in known if rule not in is_there],
        )
        self._attempted.difference_update(known)
        return outcomes.errors


def _document(link: Link, memory: RememberedRule) -> AccessDocument:
    return AccessDocument(
        link=link.name,
        rule=memory.rule,
        origin=memory.origin,
        is_certain=memory.is_certain,
        is_unwanted=memory.is_unwanted,
    )


def _list_remembered(view: LinkView) -> tuple[RememberedRule, ...]:
    return tuple(
        RememberedRule(
            rule=document.rule,
            origin=document.origin,
            is_certain=document.is_certain,
            is_unwanted=document.is_unwanted,
        )
        for document in AccessDocument.find_all(view.documents.values(), view.link.name)
    )


async def _read_held(view: LinkView) -> Mapping[Rule, Collection[str]]:
    """Read from the target's ledger which rules other links created for certain and still want."""
    found: dict[Rule, list[str]] = {}
    documents = await read_documents(view.target, kinds=[AccessDocument])
    for document in AccessDocument.find_all(documents.values()):
        if document.link != view.link.name and document.is_certain and not document.is_unwanted:
            found.setdefault(document.rule, []).append(document.link)
    return found


async def _confirm(view: LinkView, known: AccessView, plan: AccessPlan, resources: Collection[Resource]) -> AccessPlan:
    """Return the plan without deletions of rules that any broker of the source still has, and without ALLOWs that any
    of them lacks: the broker that was asked may be behind, and until it is not, rights would be taken away or given
    back, or a DENY deleted that keeps others out.
    """
    if not any(_is_doubtful(change) for change in plan.changes):
        return plan
    answered = {each: await _ask_brokers(view.source, each) for each in sorted(resources)}
    found = [answer for answers in answered.values() for answer in answers]
    error = next((each for each in found if isinstance(each, ClusterError)), None)
    heard = {each: [one for one in answered[each] if not isinstance(one, ClusterError)] for each in answered}
    anywhere = frozenset(known.source).union(*(one for answers in heard.values() for one in answers))
    everywhere = [
        rule for rule in known.source if heard[rule.resource] and all(rule in one for one in heard[rule.resource])
    ]
    given = _list_created(access_plan(replace(known, source=everywhere)))
    kept = [
        replace(change, problem=_BEHIND) if change.problem is None and _is_new(change, given) else change
        for change in plan.changes
        if change.after is not None
    ]
    settled = [memory for memory in plan.settled if not memory.is_unwanted]
    if error is not None:
        postponed = [change for change in plan.changes if change.after is None]
        kept += [replace(change, problem=change.problem or problem_of(error)) for change in postponed]
    else:
        whole = access_plan(replace(known, source=anywhere))
        kept += [each for each in whole.changes if each.after is None]
        settled += [memory for memory in whole.settled if memory.is_unwanted]
    return replace(plan, changes=tuple(kept), settled=tuple(settled))


def _is_doubtful(change: RuleChange) -> bool:
    """Whether a broker that is behind may be its cause: a deletion, or an ALLOW that is to be created."""
    return change.after is None or (change.problem is None and change.rule.permission is PermissionType.ALLOW)


async def _ask_brokers(client: Client, resource: Resource) -> list[frozenset[Rule] | ClusterError]:
    """Ask each broker for its rules; an error for one that does not answer."""
    try:
        return [*(await rules_by_broker(client, resource)).values()]
    except ClusterError as error:
        return [error]


def _list_created(plan: AccessPlan) -> frozenset[Rule]:
    return frozenset(change.rule for change in plan.changes if change.after is not None and change.problem is None)


def _is_new(change: RuleChange, given: Collection[Rule]) -> bool:
    """Whether it is an ALLOW that is not among the confirmed rules."""
    return change.rule.permission is PermissionType.ALLOW and change.rule not in given


async def _describe_rules(client: Client, resources: Collection[Resource]) -> frozenset[Rule]:
    found = await asyncio.gather(*(describe_rules(client, resource) for resource in sorted(resources)))
    return frozenset().union(*found)


def _topic_scope(view: LinkView) -> NameScope:
    mirrored = {topic.source_topic: topic.topic for topic in view.plan.topics if topic.is_copied}
    return topic_scope(view.link, mirrored)


async def _group_scope(view: LinkView, rules: Collection[Rule]) -> NameScope:
    is_asked = any(rule.resource is Resource.GROUP and rule.prefix is not None for rule in rules)
    return group_scope(view.link, sorted(merge_listings(await list_groups(view.source))) if is_asked else ())
