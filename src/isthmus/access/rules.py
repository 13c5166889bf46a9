"""Plan which access rules to create and delete at the target, by those of both sides and the remembered ones. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from isthmus.access.scope import NameScope, Place
from isthmus.model.kafka.access import EVERYBODY, AccessPolicy, AccessSettings, PermissionType, Rule, RulePattern
from isthmus.model.kafka.rights import Resource
from isthmus.model.loop import Change
from isthmus.model.problem import Problem

ACCESS_LOOP: Final = "access"
_READING: Final = frozenset({"READ", "DESCRIBE", "DESCRIBE_CONFIGS"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleChange(Change):
    """A rule to create at the target, or, without `after`, to delete. `origin` is as in `Place`."""

    rule: Rule
    origin: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RememberedRule:
    """A rule that Isthmus created, or, unless it `is_certain`, was about to create or delete. It `is_unwanted` if the
    link's source no longer has it, and it stays for another link.
    """

    rule: Rule
    origin: str
    is_certain: bool
    is_unwanted: bool = False

    @property
    def place(self) -> Place:
        """The place that it was created for."""
        return Place(self.rule.name, self.rule.pattern, self.origin)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessView:
    """The rules known on both sides. `own_principal` is ours at the target, `None` if it is unknown.

    `attempted` are the rules that this process was about to create or delete, so they are its own. `held` are the rules
    that other links created for certain and still want, with the names of these links, if a plan asked for them.
    """

    settings: AccessSettings
    scopes: Mapping[Resource, NameScope]
    source: Collection[Rule]
    target: Collection[Rule]
    remembered: Collection[RememberedRule] = ()
    attempted: Collection[Rule] = ()
    link: str = ""
    held: Mapping[Rule, Collection[str]] = field(default_factory=dict)
    own_principal: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessPlan:
    """The plan: changes at the target, remembered rules that are certain now (`settled`), and rules to forget. If it
    `asks_others`, it depends on the rules of other links.
    """

    changes: tuple[RuleChange, ...] = ()
    settled: tuple[RememberedRule, ...] = ()
    forgotten: tuple[Rule, ...] = ()
    asks_others: bool = field(default=False, compare=False)


@dataclass(slots=True)
class _CarriedRules:
    """The rules of the source that a link carries, as the target is to have them, each with its origin."""

    wanted: dict[Rule, str] = field(default_factory=dict)
    sources: list[Rule] = field(default_factory=list)
    unmade: list[RuleChange] = field(default_factory=list)


def access_plan(view: AccessView) -> AccessPlan:
    """Plan the changes that make the rules at the target those of the source. A second plan after them is empty.

    Only remembered rules are deleted.
    """
    carried = _carry_rules(view)
    there = set(view.target)
    changes = [
        _build_creation(rule, carried.wanted[rule]) for rule in sorted(carried.wanted.keys() - there, key=_order)
    ]
    changes += carried.unmade
    # A rule that another link created counts for both, and stays as long as one of them wants it.
    found = carried.wanted.keys() & there - {memory.rule for memory in view.remembered}
    settled = [
        RememberedRule(rule=rule, origin=carried.wanted[rule], is_certain=True)
        for rule in sorted(found & view.held.keys(), key=_order)
    ]
    forgotten = []
    deletions: list[RuleChange] = []
    # An ALLOW of another link stays until that link deletes it.
    left = [rule for rule in view.held if rule in there and rule not in carried.wanted]
    for memory in sorted(view.remembered, key=lambda memory: _order(memory.rule)):
        is_ours = memory.is_certain or memory.rule in view.attempted
        if memory.rule in carried.wanted:
            if memory.rule in there and is_ours and (memory.is_unwanted or not memory.is_certain):
                settled.append(replace(memory, is_certain=True, is_unwanted=False))
        elif _is_founded(memory, carried.sources):
            continue
        elif not _is_concerned(memory, view):
            left += [memory.rule] if memory.rule in there else []
        elif memory.rule not in there:
            forgotten.append(memory.rule)
        elif is_ours and (others := view.held.get(memory.rule)):
            # The last link that wants it deletes it; a link that is not run may want it for long.
            settled += [] if memory.is_unwanted else [replace(memory, is_certain=True, is_unwanted=True)]
            changes.append(
                replace(_build_deletion(memory, is_ours=True), problem=_held_by_problem(min(others)), is_by_design=True)
            )
        else:
            deletions.append(_build_deletion(memory, is_ours=is_ours))
    changes += held_back(deletions, left)
    return AccessPlan(
        changes=tuple(changes),
        settled=tuple(settled),
        forgotten=tuple(forgotten),
        asks_others=bool(found or deletions),
    )


def held_back(deletions: Collection[RuleChange], left: Collection[Rule] = ()) -> list[RuleChange]:
    """Hold back deletions of a DENY while an ALLOW that it overrides stays: that one would let in the principals that
    it keeps out. `left` are rules that stay, as the link no longer carries their names.
    """
    allowed = [rule for rule in left if rule.permission is PermissionType.ALLOW]
    stuck = [c.rule for c in deletions if c.problem is not None and c.rule.permission is PermissionType.ALLOW]

    def judge(change: RuleChange) -> RuleChange:
        if change.problem is not None or change.rule.permission is PermissionType.ALLOW:
            return change
        problem, by_design = (next((a for a in rules if change.rule.overrides(a)), None) for rules in (stuck, allowed))
        staying = problem or by_design
        if staying is None:
            return change
        return replace(change, problem=_held_back_problem(staying), is_by_design=problem is None)

    return [judge(change) for change in deletions]


def _carry_rules(view: AccessView) -> _CarriedRules:
    carried = _CarriedRules()
    there = set(view.target)
    rules = [
        rule
        for original in sorted(view.source, key=_order)
        if (rule := _apply_policy(view.settings, original)) is not None
    ]
    placed = {rule: dict(_place_rule(rule, view.scopes)) for rule in rules}
    allowing = [rule for rule in rules if rule.permission is PermissionType.ALLOW and _is_ahead(rule, placed[rule])]
    for denial in (rule for rule in rules if rule.permission is PermissionType.DENY):
        overridden = [placed[rule] for rule in allowing if denial.overrides(rule)]
        if overridden and not _is_ahead(denial, placed[denial]):
            placed[denial].update(_place_ahead(denial, overridden, view.scopes[denial.resource]))
    dangerous: list[Rule] = []
    for rule in rules:
        if _shuts_us_out(rule, view.own_principal):
            missing = [each for each in placed[rule] if each not in there]
            dangerous += [rule] if missing else []
            carried.unmade += [_build_unmade(each, _SHUT_OUT) for each in missing]
    for rule in rules:
        if _shuts_us_out(rule, view.own_principal):
            # If the target has it already it stays as long as the source has it.
            carried.sources.append(rule)
            continue
        overriding = _find_overriding(rule, dangerous)
        if overriding is not None:
            carried.unmade += [
                _build_unmade(each, _overridden_problem(overriding)) for each in placed[rule] if each not in there
            ]
            continue
        carried.sources.append(rule)
        carried.wanted.update(placed[rule])
        scope = view.scopes.get(rule.resource)
        if scope is not None and scope.is_scattered(rule):
            carried.unmade.append(_build_unmade(rule, _SCATTERED, is_by_design=True))
    # Another rule of the source may lead to the same rule at the target.
    carried.unmade = [change for change in carried.unmade if change.is_by_design or change.rule not in carried.wanted]
    return carried


def _apply_policy(settings: AccessSettings, rule: Rule) -> Rule | None:
    """Return the rule as the policy carries it, for the principal at the target, under the source's name; `None` if the
    policy does not carry it.
    """
    if rule.permission is PermissionType.DENY and rule.principal == EVERYBODY and settings.principals:
        # It denies attached principals as well: the target must not allow what it overrides.
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
    # A DENY of ALL also denies reading.
    return rule if rule.permission is PermissionType.DENY else replace(rule, operation="READ")


def _place_rule(rule: Rule, scopes: Mapping[Resource, NameScope]) -> Iterator[tuple[Rule, str]]:
    scope = scopes.get(rule.resource)
    for place in () if scope is None else scope.places(rule):
        yield replace(rule, name=place.name, pattern=place.pattern), place.origin


def _is_ahead(rule: Rule, placed: Iterable[Rule]) -> bool:
    """Whether a rule is at the target before its names are: as one rule there, and not one for each existing name."""
    return any(each.pattern is RulePattern.PREFIXED or rule.prefix is None for each in placed)


def _place_ahead(
    denial: Rule, overridden: Iterable[Mapping[Rule, str]], scope: NameScope
) -> Iterator[tuple[Rule, str]]:
    """Place a DENY on the places of the ALLOWs that it overrides, as those let principals in to new names at once."""
    for placed in overridden:
        for allowed, origin in placed.items():
            if denial.prefix is not None and origin.startswith(denial.prefix):
                yield replace(denial, name=allowed.name, pattern=allowed.pattern), origin
    name = None if denial.prefix is not None else scope.target_of(denial.name)
    if name is not None:
        yield replace(denial, name=name), denial.name


def _shuts_us_out(rule: Rule, own: str | None) -> bool:
    return rule.permission is PermissionType.DENY and rule.principal in (EVERYBODY, own)


def _find_overriding(rule: Rule, dangerous: Collection[Rule]) -> Rule | None:
    if rule.permission is PermissionType.DENY:
        return None
    # A DENY for our own principal overrides no rule of others.
    return next((d for d in dangerous if d.overrides(rule) and d.principal in (EVERYBODY, rule.principal)), None)


def _is_founded(memory: RememberedRule, sources: Collection[Rule]) -> bool:
    """Whether the source still has a rule for it, even if the link no longer selects its name."""
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
    if rule.prefix is not None and rule.permission is PermissionType.DENY:
        return place.origin.startswith(rule.prefix)
    return place.pattern.value == "LITERAL" and rule.covers(place.origin)


def _is_concerned(memory: RememberedRule, view: AccessView) -> bool:
    scope = view.scopes.get(memory.rule.resource)
    # Rules of detached principals stay, as detached topics do.
    return scope is not None and scope.has(memory.place) and view.settings.may_be_ours(memory.rule.principal)


_SHUT_OUT: Final = Problem(
    "it could shut Isthmus out of the target: not created, and neither are the rules that it overrides",
    "If Isthmus is a super user there, or logs in as another principal than that of the rule, create it yourself.",
)
_SCATTERED: Final = Problem(
    "the link's naming has no counterpart for a prefix: each name that is mirrored gets a rule of its own",
    "Nothing needs to be done: names that come get theirs when they come.",
)
_UNCERTAIN: Final = Problem(
    "the source has no such rule any more, and it is not known whether Isthmus or another author created it: the run "
    "that was about to do so ended before it knew",
    "Delete it yourself if nothing else needs it.",
)


def _held_by_problem(link: str) -> Problem:
    return Problem(f"link {link} has made it as well: it stays", "Nothing needs to be done: it goes with that link's.")


def _held_back_problem(allowing: Rule) -> Problem:
    return Problem(
        f"it stays as long as ALLOW {allowing.grant} on {allowing.subject} does, which would admit the users that it "
        "keeps out",
        "Delete that one yourself if nothing else needs it; this one follows then.",
    )


def _overridden_problem(deny: Rule) -> Problem:
    return Problem(
        f"at the source it is overridden by DENY {deny.grant} on {deny.subject}, which is not created at the target",
        "Create that one at the target yourself; this one follows then.",
    )


def _build_creation(rule: Rule, origin: str) -> RuleChange:
    return _build_change(rule, before=None, after=str(rule.permission), origin=origin)


def _build_deletion(memory: RememberedRule, *, is_ours: bool) -> RuleChange:
    problem = None if is_ours else _UNCERTAIN
    return _build_change(
        memory.rule, before=str(memory.rule.permission), after=None, origin=memory.origin, problem=problem
    )


def _build_unmade(rule: Rule, problem: Problem, *, is_by_design: bool = False) -> RuleChange:
    return replace(_build_creation(rule, ""), problem=problem, is_by_design=is_by_design)


def _build_change(
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
