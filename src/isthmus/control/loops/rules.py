"""Which access rules are to be created and deleted at the target: by the source's, the target's, and memory. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from isthmus.control.loops.scope import NameScope, Place
from isthmus.model.access import EVERYBODY, AccessPolicy, AccessSettings, PermissionType, Rule
from isthmus.model.loop import Change
from isthmus.model.problem import Problem
from isthmus.model.rights import Resource

ACCESS_LOOP: Final = "access"
_READING: Final = frozenset({"READ", "DESCRIBE", "DESCRIBE_CONFIGS"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleChange(Change):
    """A rule that is to be created at the target, or deleted: without `after`. `origin` is as in `Place`.

    With `is_by_design` its problem is no failure.
    """

    rule: Rule
    origin: str = ""
    is_by_design: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RememberedRule:
    """A rule that Isthmus created, or was about to create or to delete if it is not `is_certain`."""

    rule: Rule
    origin: str
    is_certain: bool

    @property
    def place(self) -> Place:
        """What it was made for."""
        return Place(self.rule.name, self.rule.pattern, self.origin)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessView:
    """What is known of the rules on both sides. `own_principal` is ours at the target, `None` if we cannot know it.

    `attempted` are the rules that this very process was about to create or to delete: it knows them as its own.
    """

    settings: AccessSettings
    scopes: Mapping[Resource, NameScope]
    source: Collection[Rule]
    target: Collection[Rule]
    remembered: Collection[RememberedRule] = ()
    attempted: Collection[Rule] = ()
    own_principal: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessPlan:
    """What is to be done: changes at the target, and what memory is to know for certain, or to forget."""

    changes: tuple[RuleChange, ...] = ()
    settled: tuple[RememberedRule, ...] = ()
    forgotten: tuple[Rule, ...] = ()


@dataclass(slots=True)
class _Carried:
    """The rules of the source that a link carries, as the target is to have them, and where each comes from."""

    wanted: dict[Rule, str] = field(default_factory=dict)
    sources: list[Rule] = field(default_factory=list)
    told: list[RuleChange] = field(default_factory=list)


def access_plan(view: AccessView) -> AccessPlan:
    """What makes the rules at the target those of the source. Once it was done, nothing more has to be.

    No rule is deleted that is not remembered.
    """
    carried = _carried(view)
    there = set(view.target)
    changes = [_creation(rule, carried.wanted[rule]) for rule in sorted(carried.wanted.keys() - there, key=_order)]
    changes += carried.told
    settled, forgotten = [], []
    for memory in sorted(view.remembered, key=lambda memory: _order(memory.rule)):
        is_ours = memory.is_certain or memory.rule in view.attempted
        if memory.rule in carried.wanted:
            if memory.rule in there and is_ours and not memory.is_certain:
                settled.append(replace(memory, is_certain=True))
        elif _is_founded(memory, carried.sources) or not _is_concerned(memory, view):
            continue
        elif memory.rule not in there:
            forgotten.append(memory.rule)
        else:
            changes.append(_deletion(memory, is_ours=is_ours))
    return AccessPlan(changes=tuple(changes), settled=tuple(settled), forgotten=tuple(forgotten))


def _carried(view: AccessView) -> _Carried:
    carried = _Carried()
    there = set(view.target)
    rules = [
        (original, rule)
        for original in sorted(view.source, key=_order)
        if (rule := _by_policy(view.settings, original)) is not None
    ]
    dangerous: list[Rule] = []
    for _, rule in rules:
        if _shuts_us_out(rule, view.own_principal):
            missing = [placed for placed, _ in _placed(rule, view.scopes) if placed not in there]
            dangerous += [rule] if missing else []
            carried.told += [_not_made(placed, _SHUT_OUT) for placed in missing]
    for _, rule in rules:
        if _shuts_us_out(rule, view.own_principal):
            # Where it has been made already it stays as long as the source has it, whoever made it.
            carried.sources.append(rule)
            continue
        overriding = _overriding(rule, dangerous)
        if overriding is not None:
            carried.told += [
                _not_made(placed, _overridden(overriding))
                for placed, _ in _placed(rule, view.scopes)
                if placed not in there
            ]
            continue
        carried.sources.append(rule)
        carried.wanted.update(_placed(rule, view.scopes))
        scope = view.scopes.get(rule.resource)
        if scope is not None and scope.is_scattered(rule):
            carried.told.append(_not_made(rule, _SCATTERED, is_by_design=True))
    # What one rule of the source is not to give, another may.
    carried.told = [change for change in carried.told if change.is_by_design or change.rule not in carried.wanted]
    return carried


def _by_policy(settings: AccessSettings, rule: Rule) -> Rule | None:
    """The rule as the policy carries it, for the principal at the target, under the source's name; `None` if it does
    not.
    """
    if rule.permission is PermissionType.DENY and rule.principal == EVERYBODY and settings.principals:
        # It is about those who are attached as well: what it overrides is not to be had at the target either.
        principal: str | None = EVERYBODY
    else:
        principal = settings.at_target(rule.principal)
    if settings.policy is AccessPolicy.OFF or principal is None:
        return None
    rule = replace(rule, principal=principal)
    if settings.policy is AccessPolicy.FULL:
        return rule
    if rule.resource is not Resource.TOPIC:
        return None
    if rule.operation in _READING:
        return rule
    if rule.operation != "ALL":
        return None
    # Whoever may do nothing may not read either.
    return rule if rule.permission is PermissionType.DENY else replace(rule, operation="READ")


def _placed(rule: Rule, scopes: Mapping[Resource, NameScope]) -> Iterator[tuple[Rule, str]]:
    scope = scopes.get(rule.resource)
    for place in () if scope is None else scope.places(rule):
        yield replace(rule, name=place.name, pattern=place.pattern), place.origin


def _shuts_us_out(rule: Rule, own: str | None) -> bool:
    return rule.permission is PermissionType.DENY and rule.principal in (EVERYBODY, own)


def _overriding(rule: Rule, dangerous: Collection[Rule]) -> Rule | None:
    if rule.permission is PermissionType.DENY:
        return None
    return next((deny for deny in dangerous if deny.overrides(rule)), None)


def _is_founded(memory: RememberedRule, sources: Collection[Rule]) -> bool:
    """Whether a rule of the source is still there for it, whatever the link selects by now."""
    made = memory.rule
    return any(
        (rule.resource, rule.principal, rule.host, rule.operation, rule.permission)
        == (made.resource, made.principal, made.host, made.operation, made.permission)
        and _is_about(rule, memory.place)
        for rule in sources
    )


def _is_about(rule: Rule, place: Place) -> bool:
    if rule.prefix is not None and rule.prefix == place.origin:
        return True
    return place.pattern.value == "LITERAL" and rule.covers(place.origin)


def _is_concerned(memory: RememberedRule, view: AccessView) -> bool:
    scope = view.scopes.get(memory.rule.resource)
    # Those whose principals were detached stay, as the topics do.
    return scope is not None and scope.has(memory.place) and view.settings.may_be_ours(memory.rule.principal)


_SHUT_OUT: Final = Problem(
    "it could shut Isthmus out of the target: not created, and neither is what it overrides",
    "If Isthmus is a super user there, or logs in as somebody else than it is about, create it yourself.",
)
_SCATTERED: Final = Problem(
    "the link's naming has no counterpart for a prefix: each name that is mirrored gets a rule of its own",
    "Nothing needs to be done: names that come get theirs when they come.",
)
_UNCERTAIN: Final = Problem(
    "the source has no such rule any more, and whether Isthmus created it or somebody else did is not known: "
    "the run that was about to do so ended before it knew",
    "Delete it yourself if nobody else needs it.",
)


def _overridden(deny: Rule) -> Problem:
    return Problem(
        f"at the source it is overridden by DENY {deny.grant} on {deny.subject}, which is not created at the target",
        "Create that one at the target yourself; this one follows then.",
    )


def _creation(rule: Rule, origin: str) -> RuleChange:
    return _change(rule, before=None, after=str(rule.permission), origin=origin)


def _deletion(memory: RememberedRule, *, is_ours: bool) -> RuleChange:
    problem = None if is_ours else _UNCERTAIN
    return _change(memory.rule, before=str(memory.rule.permission), after=None, origin=memory.origin, problem=problem)


def _not_made(rule: Rule, problem: Problem, *, is_by_design: bool = False) -> RuleChange:
    return replace(_creation(rule, ""), problem=problem, is_by_design=is_by_design)


def _change(
    rule: Rule, *, before: str | None, after: str | None, origin: str, problem: Problem | None = None
) -> RuleChange:
    return RuleChange(
        loop=ACCESS_LOOP,
        subject=rule.subject,
        setting=rule.grant,
        before=before,
        after=after,
        problem=problem,
        rule=rule,
        origin=origin,
    )


def _order(rule: Rule) -> tuple[str, ...]:
    return tuple(getattr(rule, name) for name in Rule.__slots__)
