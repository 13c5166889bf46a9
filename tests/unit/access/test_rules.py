"""Which access rules are created and deleted at the target."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isthmus.access.rules import AccessPlan, AccessView, RememberedRule, access_plan
from isthmus.access.scope import group_scope, topic_scope
from isthmus.model.cluster import Cluster
from isthmus.model.groupsettings import GroupPattern, GroupSettings
from isthmus.model.kafka.access import (
    MEANS,
    AccessPolicy,
    AccessSettings,
    PermissionType,
    PrincipalPattern,
    Rule,
    RulePattern,
)
from isthmus.model.kafka.rights import Resource
from isthmus.model.link import Link
from isthmus.model.namespace import NamespaceMap
from isthmus.model.naming import IDENTITY, MirrorMakerNaming, NameTemplate, Naming, PrefixNaming, TemplateNaming
from isthmus.model.selection import TopicPattern, TopicSettings

EAST, WEST = (Cluster(alias=alias, bootstrap_servers=("127.0.0.1:1",)) for alias in ("east", "west"))
TOPICS = ("orders", "orders.a", "orders.b", "bills")
GROUPS = ("billing", "billing-2", "shipping")
READ_ONLY, FULL = AccessSettings(policy=AccessPolicy.READ_ONLY), AccessSettings(policy=AccessPolicy.FULL)
MM2 = MirrorMakerNaming(source_alias="east", target_alias="west")
TEMPLATES = TemplateNaming(source=NameTemplate.parse("{name}"), target=NameTemplate.parse("x-{name}"))


def link(*include: str, exclude: Iterable[str] = (), naming: Naming = IDENTITY, groups: str = "billing*") -> Link:
    """A link of these topics and groups."""
    return Link(
        name="l",
        source=EAST,
        target=WEST,
        topics=TopicSettings(
            include=tuple(map(TopicPattern.parse, include)),
            exclude=tuple(map(TopicPattern.parse, exclude)),
            naming=naming,
        ),
        groups=GroupSettings(include=(GroupPattern.parse(groups),)),
    )


def rule(text: str, resource: Resource = Resource.TOPIC) -> Rule:
    """`alice READ orders`, `!alice ALL orders*` (a DENY, of a prefix), `alice READ *` of all; `alice@host` from one."""
    who, operation, name = text.split()
    is_denied, who = who.startswith("!"), who.removeprefix("!")
    principal, _, host = who.partition("@")
    is_prefixed = name.endswith("*") and name != "*"
    return Rule(
        resource=resource,
        name=name.removesuffix("*") if is_prefixed else name,
        pattern=RulePattern.PREFIXED if is_prefixed else RulePattern.LITERAL,
        principal="User:*" if principal == "everybody" else f"User:{principal}",
        host=host or "*",
        operation=operation,
        permission=PermissionType.DENY if is_denied else PermissionType.ALLOW,
    )


def rules(*texts: str) -> set[Rule]:
    return {rule(text) for text in texts}


def groups(*texts: str) -> set[Rule]:
    return {rule(text, Resource.GROUP) for text in texts}


def view(source: Collection[Rule], settings: AccessSettings, of: Link, **fields: Any) -> AccessView:
    """Both sides of a link, whose source has all topics and groups."""
    named = of.topics.name_topics(TOPICS)
    scopes = {
        Resource.TOPIC: topic_scope(of, {source: name for name, source in named.sources.items()}),
        Resource.GROUP: group_scope(of, GROUPS),
    }
    return AccessView(**{"settings": settings, "scopes": scopes, "source": source, "target": set(), **fields})


def created(plan: AccessPlan) -> set[Rule]:
    return {change.rule for change in plan.changes if change.problem is None and change.after is not None}


def deleted(plan: AccessPlan) -> set[Rule]:
    return {change.rule for change in plan.changes if change.problem is None and change.after is None}


def failures(plan: AccessPlan) -> set[Rule]:
    return {change.rule for change in plan.changes if change.problem is not None and not change.is_by_design}


def ours(*made: Rule, origin: str = "orders", is_certain: bool = True) -> list[RememberedRule]:
    return [RememberedRule(rule=each, origin=origin, is_certain=is_certain) for each in made]


ORDERS = link("orders")


def test_reading_is_carried_and_nothing_more() -> None:
    """An ALLOW of writing or changing stays at the source, and of everything becomes one of reading."""
    source = rules(
        "alice READ orders",
        "bob ALL orders",
        "carol WRITE orders",
        "dave DELETE orders",
        "eve@10.0.0.1 DESCRIBE orders",
        "frank ALTER_CONFIGS orders",
        "alice READ bills",
    )
    expected = rules("alice READ orders", "bob READ orders", "eve@10.0.0.1 DESCRIBE orders")
    assert created(access_plan(view(source | groups("alice READ billing"), READ_ONLY, ORDERS))) == expected


def test_denials_of_reading_are_carried() -> None:
    """Who may not read at the source may not do so at the target; what else is denied concerns nobody there."""
    source = rules("!alice READ orders", "!bob ALL orders", "!carol WRITE orders", "!dave DESCRIBE orders")
    assert created(access_plan(view(source, READ_ONLY, ORDERS))) == source - rules("!carol WRITE orders")


def test_full_carries_all_rules_of_topics_and_groups() -> None:
    """As they are: a target that takes over lets the same people do the same."""
    source = rules("alice WRITE orders", "bob ALL orders", "!carol WRITE orders") | groups("alice READ billing")
    others = rules("alice READ bills") | groups("alice READ shipping")
    assert created(access_plan(view(source | others, FULL, ORDERS))) == source


def test_nothing_is_carried_without_a_policy() -> None:
    """By default access is each cluster's own business."""
    assert access_plan(view(rules("alice READ orders"), AccessSettings(), ORDERS)) == AccessPlan()


@pytest.mark.parametrize(
    ("naming", "wide", "expected"),
    [
        (IDENTITY, "alice READ ord*", ["alice READ ord*"]),
        (PrefixNaming(target_prefix="x-"), "alice READ ord*", ["alice READ x-ord*"]),
        (PrefixNaming(target_prefix="x-"), "alice READ *", ["alice READ x-*"]),
        (PrefixNaming(source_prefix="orders.", target_prefix="o."), "alice READ ord*", ["alice READ o.*"]),
        (PrefixNaming(source_prefix="orders.", target_prefix="o."), "alice READ bil*", []),
        (MM2, "alice READ ord*", ["alice READ east.ord*"]),
        (MM2, "alice READ *", ["alice READ east.*"]),
        (TEMPLATES, "alice READ orders.*", ["alice READ x-orders.a", "alice READ x-orders.b"]),
    ],
)
def test_prefixes_follow_the_naming(naming: Naming, wide: str, expected: list[str]) -> None:
    """Where names are moved prefix for prefix, so are rules; elsewhere each name gets its own, and that is told."""
    plan = access_plan(view(rules(wide), READ_ONLY, link("*", naming=naming)))
    assert created(plan) == rules(*expected)
    assert failures(plan) == set()
    told = [change.is_by_design for change in plan.changes if change.problem is not None]
    assert told == ([True] if naming == TEMPLATES else [])


@pytest.mark.parametrize("settings", [READ_ONLY, FULL], ids=["read-only", "full"])
def test_no_rule_reaches_beyond_what_is_mirrored(settings: AccessSettings) -> None:
    """A wide rule stays one only where the link mirrors all it is about; one about everything becomes one for each."""
    wide = rules("alice READ orders*")
    assert created(access_plan(view(wide, settings, link("orders*")))) == wide
    assert created(access_plan(view(wide, settings, ORDERS))) == rules("alice READ orders")
    assert created(access_plan(view(wide, settings, link("/orders.*/", exclude=["orders.b"])))) == rules(
        "alice READ orders", "alice READ orders.a"
    )
    assert created(access_plan(view(rules("alice READ *"), settings, link("*")))) == rules(
        *(f"alice READ {name}" for name in TOPICS)
    )
    assert created(access_plan(view(rules("alice READ _*"), settings, link("*")))) == set()


def test_wide_rules_of_groups() -> None:
    """By the same rules: carried as they are, or for each group there is."""
    wide = groups("alice READ bill*", "bob READ billing-*")
    assert created(access_plan(view(wide, FULL, ORDERS))) == groups(
        "alice READ billing", "alice READ billing-2", "bob READ billing-*"
    )


def test_excluded_principals_get_nothing() -> None:
    """What was made for them before is taken back."""
    settings = replace(FULL, exclude_principals=(PrincipalPattern.parse("User:a*"),))
    plan = access_plan(view(rules("alice READ orders", "bob READ orders"), settings, ORDERS))
    assert created(plan) == rules("bob READ orders")
    made = rule("alice READ orders")
    plan = access_plan(view({made}, settings, ORDERS, target={made}, remembered=ours(made)))
    assert deleted(plan) == {made}


def test_only_what_isthmus_made_is_deleted() -> None:
    """A rule that is gone at the source goes at the target if the ledger has it; others stay, and are never claimed."""
    made, theirs = rule("alice READ orders"), rule("bob READ orders")
    plan = access_plan(view(set(), FULL, ORDERS, target={made, theirs}, remembered=ours(made)))
    assert deleted(plan) == {made}
    there_before = access_plan(view({theirs}, FULL, ORDERS, target={theirs}))
    assert there_before == AccessPlan()


def test_what_somebody_else_deleted_is_made_again_or_forgotten() -> None:
    """Made again while the source has it; else there is nothing left to remember."""
    made = rule("alice READ orders")
    assert created(access_plan(view({made}, FULL, ORDERS, remembered=ours(made)))) == {made}
    plan = access_plan(view(set(), FULL, ORDERS, remembered=ours(made)))
    assert (plan.changes, plan.forgotten) == ((), (made,))


def test_a_rule_of_unknown_origin_is_left_to_an_operator() -> None:
    """A run that ended before it knew leaves rules that are reported and not deleted; its own process knows them."""
    made = rule("alice READ orders")
    memory = ours(made, is_certain=False)
    plan = access_plan(view(set(), FULL, ORDERS, target={made}, remembered=memory))
    assert (deleted(plan), failures(plan)) == (set(), {made})
    assert deleted(access_plan(view(set(), FULL, ORDERS, target={made}, remembered=memory, attempted=[made]))) == {made}
    plan = access_plan(view({made}, FULL, ORDERS, target={made}, remembered=memory, attempted=[made]))
    assert (plan.changes, plan.settled) == ((), tuple(ours(made)))
    assert access_plan(view({made}, FULL, ORDERS, target={made}, remembered=memory)) == AccessPlan()


def test_a_narrower_policy_takes_back_what_it_does_not_carry() -> None:
    """From full to read-only: writing, and the rules of groups."""
    source = rules("alice WRITE orders", "alice READ orders") | groups("alice READ billing")
    memory = [*ours(*rules("alice WRITE orders", "alice READ orders")), *ours(*groups("alice READ billing"))]
    memory = [replace(m, origin=m.rule.name) for m in memory]
    plan = access_plan(view(source, READ_ONLY, ORDERS, target=source, remembered=memory))
    assert deleted(plan) == rules("alice WRITE orders") | groups("alice READ billing")


@pytest.mark.parametrize("still_at_source", [True, False])
def test_topics_that_are_not_mirrored_any_more_keep_their_rules(*, still_at_source: bool) -> None:
    """They may have taken over: who uses them goes on using them."""
    made = rule("alice READ orders")
    source = {made} if still_at_source else set()
    assert access_plan(view(source, FULL, link("bills"), target={made}, remembered=ours(made))) == AccessPlan()
    wide = rule("alice READ ord*")
    memory = ours(wide, origin="ord")
    kept = access_plan(view({wide}, FULL, link("bills"), target={wide}, remembered=memory))
    assert kept == AccessPlan()


def test_a_topic_that_is_away_keeps_its_rules() -> None:
    """A rule is deleted because the source's is gone, never because its topic is not seen."""
    made, wide = rule("alice READ orders"), rules("alice READ *")
    unseen = {Resource.TOPIC: topic_scope(ORDERS, {}), Resource.GROUP: group_scope(ORDERS, ())}
    for source in (wide, {made}):
        assert access_plan(view(source, FULL, ORDERS, target={made}, remembered=ours(made), scopes=unseen)) == (
            AccessPlan()
        )


@pytest.mark.parametrize("who", ["everybody", "mirror"])
def test_a_denial_that_would_shut_us_out(who: str) -> None:
    """It is not created, which is told, and neither is what it overrides; an operator's own is not in the way."""
    denial = rule(f"!{who} READ orders")
    source = {denial, *rules("alice READ orders", "mirror READ orders", "alice DESCRIBE_CONFIGS orders")}
    plan = access_plan(view(source, FULL, ORDERS, own_principal="User:mirror"))
    overridden = {each for each in source if denial.overrides(each)} | {denial}
    assert failures(plan) == overridden
    assert created(plan) == source - overridden
    plan = access_plan(view(source, FULL, ORDERS, own_principal="User:mirror", target={denial}))
    assert (created(plan), failures(plan)) == (source - {denial}, set())


@pytest.mark.parametrize(
    ("denying", "allowing", "overrides"),
    [
        ("!alice READ orders", "alice READ orders", True),
        ("!everybody ALL *", "alice READ ord*", True),
        ("!alice READ orders.a", "alice ALL orders*", True),
        ("!alice READ orders*", "alice READ ord*", True),
        ("!alice DESCRIBE orders", "alice READ orders", True),
        ("!alice@1.1.1.1 READ orders", "alice READ orders", True),
        ("!alice@1.1.1.1 READ orders", "alice@2.2.2.2 READ orders", False),
        ("!alice READ orders", "bob READ orders", False),
        ("!alice WRITE orders", "alice READ orders", False),
        ("!alice READ bills", "alice READ ord*", False),
    ],
)
def test_what_a_denial_overrides(denying: str, allowing: str, *, overrides: bool) -> None:
    """By principal, host, operation and name, wherever the two meet."""
    assert rule(denying).overrides(rule(allowing)) is overrides


def test_a_digest_names_one_rule() -> None:
    """It is the key in the ledger."""
    every = [rule(text, resource) for text in ("a READ o", "a READ o*", "!a READ o") for resource in Resource]
    assert len({each.digest for each in every}) == len(every)
    assert rule("a READ o").digest == rule("a READ o").digest


NAMES = st.sampled_from(["orders", "orders.a", "orders.b", "bills", "ord*", "orders.*", "*", "x-orders", "o.a"])
TEXTS = st.builds(
    lambda denied, who, operation, name: f"{denied}{who} {operation} {name}",
    st.sampled_from(["", "!"]),
    st.sampled_from(["alice", "bob", "everybody", "mirror", "alice@1.1.1.1"]),
    st.sampled_from(["READ", "WRITE", "ALL", "DESCRIBE"]),
    NAMES,
)
RULES = st.sets(st.builds(rule, TEXTS, st.sampled_from([Resource.TOPIC, Resource.GROUP])), max_size=8)
LINKS = st.builds(
    lambda include, exclude, naming: link(*include, exclude=exclude, naming=naming, groups="*"),
    st.lists(st.sampled_from(["*", "orders", "orders.*", "/o.*/"]), min_size=1, max_size=2),
    st.lists(st.sampled_from(["orders.b", "bills"]), max_size=1),
    st.sampled_from([IDENTITY, PrefixNaming(target_prefix="x-"), MM2, TEMPLATES]),
)
ORIGINS: Mapping[str, str] = {"x-orders": "orders", "o.a": "orders.a"}


def done(before: AccessView, plan: AccessPlan) -> AccessView:
    """Both sides after a plan was carried out."""
    gone = deleted(plan) | set(plan.forgotten)
    memory = {m.rule: m for m in before.remembered if m.rule not in gone} | {m.rule: m for m in plan.settled}
    for change in plan.changes:
        if change.problem is None and change.after is not None:
            memory[change.rule] = RememberedRule(rule=change.rule, origin=change.origin, is_certain=True)
    target = (set(before.target) | created(plan)) - deleted(plan)
    return replace(before, target=target, remembered=tuple(memory.values()))


@given(RULES, RULES, st.data(), LINKS, st.sampled_from([READ_ONLY, FULL]))
def test_what_was_done_is_not_done_again_and_nothing_of_others_is_touched(
    source: set[Rule], target: set[Rule], data: st.DataObject, of: Link, settings: AccessSettings
) -> None:
    """A second look finds nothing; whatever was deleted was remembered for certain; what was created stays ours."""
    memory = [
        RememberedRule(rule=each, origin=ORIGINS.get(each.name, each.name), is_certain=data.draw(st.booleans()))
        for each in data.draw(
            st.sets(st.sampled_from(sorted(source | target, key=str)) if source | target else st.nothing())
        )
    ]
    before = view(source, settings, of, target=target, remembered=memory, own_principal="User:mirror")
    plan = access_plan(before)
    assert deleted(plan) <= {m.rule for m in memory if m.is_certain} & target
    assert created(plan).isdisjoint(target)
    after = done(before, plan)
    again = access_plan(after)
    assert (created(again), deleted(again), again.settled, again.forgotten) == (set(), set(), (), ())
    # The source drops everything: only what the link made, for what it still mirrors, goes with it.
    emptied = access_plan(replace(after, source=set()))
    assert deleted(emptied) <= {m.rule for m in after.remembered if m.is_certain}
    # But for a DENY of which an ALLOW stays that it overrides.
    staying = set(before.target) - deleted(emptied)
    held = {c.rule for c in emptied.changes if c.problem is not None and any(c.rule.overrides(o) for o in staying)}
    assert created(plan) <= deleted(emptied) | held


TEAM = replace(FULL, principals=(NamespaceMap.parse("User:team-:User:east-team-", "principal"),))


def test_principals_that_are_attached_have_their_own_names() -> None:
    """Rules of these and of no others are carried, also in place of rules for everybody; a DENY for everybody holds for
    them as well, and what it overrides is not created.
    """
    of = link("orders", "bills")
    source = rules("team-a READ orders", "bob READ orders", "everybody WRITE orders")
    plan = access_plan(view(source, TEAM, of))
    assert [(one.rule, one.problem) for one in plan.changes] == [(rule("east-team-a READ orders"), None)]

    denied = access_plan(view({*source, rule("!everybody READ orders")}, TEAM, of))
    assert [(one.rule.principal, one.problem is None) for one in denied.changes] == [
        ("User:*", False),
        ("User:east-team-a", False),
    ]


def test_rules_of_principals_that_were_detached_stay() -> None:
    """They follow no more: whoever used their rights goes on using them; those that still follow are taken back."""
    of = link("orders")
    remembered = [
        RememberedRule(rule=rule(text), origin="orders", is_certain=True)
        for text in ("east-team-a READ orders", "other READ orders")
    ]
    plan = access_plan(view([], TEAM, of, target={each.rule for each in remembered}, remembered=remembered))
    assert [(one.rule, one.after) for one in plan.changes] == [(rule("east-team-a READ orders"), None)]


def may(rules_: Collection[Rule], principal: str, operation: str, name: str, resource: Resource) -> bool:
    """What Kafka's authorizer answers to somebody at 1.1.1.1."""

    def is_about(one: Rule) -> bool:
        return (
            one.resource is resource
            and one.covers(name)
            and one.principal in ("User:*", principal)
            and one.host in ("*", "1.1.1.1")
        )

    found = [one for one in rules_ if is_about(one)]
    if any(one.permission is PermissionType.DENY and one.operation in ("ALL", operation) for one in found):
        return False
    return any(
        one.permission is PermissionType.ALLOW and (one.operation == "ALL" or operation in MEANS[one.operation])
        for one in found
    )


@given(RULES, st.sets(st.sampled_from(TOPICS)), LINKS, st.sampled_from([READ_ONLY, FULL]))
def test_nobody_may_do_at_the_target_what_the_source_refuses(
    source: set[Rule], there: set[str], of: Link, settings: AccessSettings
) -> None:
    """Also with what is still to come: the rules of names that a rule of the target covers before they are there. We
    ourselves (`mirror`) are not kept out.
    """
    named = of.topics.name_topics(sorted(there))
    scopes = {
        Resource.TOPIC: topic_scope(of, {source: name for name, source in named.sources.items()}),
        Resource.GROUP: group_scope(of, sorted(there)),
    }
    made = created(access_plan(view(source, settings, of, scopes=scopes, own_principal="User:mirror")))
    for resource, scope in scopes.items():
        for name in (*TOPICS, "orders.new", "x"):
            theirs = scope.target_of(name)
            for who in ("alice", "bob", "somebody"):
                for operation in ("READ", "WRITE", "DESCRIBE", "DELETE"):
                    if theirs is not None and may(made, f"User:{who}", operation, theirs, resource):
                        assert may(source, f"User:{who}", operation, name, resource), (who, operation, name)


@pytest.mark.parametrize(
    ("denying", "placed"),
    [("!bob READ *", "!bob READ x-orders.*"), ("!bob READ orders.new", "!bob READ x-orders.new")],
)
def test_a_denial_is_there_before_what_it_is_about(denying: str, placed: str) -> None:
    """Where a rule for a prefix will let everybody in, a DENY of more, or of one name, is made for what is to come."""
    of = link("orders.*", naming=PrefixNaming(target_prefix="x-"))
    source = rules("everybody READ orders.*", denying)
    plan = access_plan(view(source, READ_ONLY, of))
    assert {rule(placed), rule("everybody READ x-orders.*")} <= created(plan)
    # It stays as long as the source has it, and goes with it.
    made = [RememberedRule(rule=c.rule, origin=c.origin, is_certain=True) for c in plan.changes if c.problem is None]
    there = {each.rule for each in made}
    denied = view(rules(denying), READ_ONLY, of, target=there, remembered=made)
    assert deleted(access_plan(denied)) == rules("everybody READ x-orders.*")
    assert deleted(access_plan(replace(denied, source=set()))) == there


def test_a_denial_stays_while_what_it_overrides_does() -> None:
    """An ALLOW that is left to an operator, or to whom a topic was cut over, does not let in whom a DENY kept out."""
    allowing, denying = rule("everybody READ orders"), rule("!alice READ orders")
    unsure = [*ours(allowing, is_certain=False), *ours(denying)]
    plan = access_plan(view(set(), FULL, ORDERS, target={allowing, denying}, remembered=unsure))
    assert (deleted(plan), failures(plan)) == (set(), {allowing, denying})
    gone = access_plan(view(set(), FULL, ORDERS, target={denying}, remembered=unsure))
    assert (deleted(gone), gone.forgotten) == ({denying}, (allowing,))

    left, wide = rule("everybody READ orders.b"), rule("!alice READ orders*")
    memory = [*ours(left, origin="orders.b"), *ours(wide, origin="orders")]
    plan = access_plan(view(set(), FULL, link("orders.a"), target={left, wide}, remembered=memory))
    assert (deleted(plan), failures(plan)) == (set(), set())
    (told,) = plan.changes
    assert told.problem is not None
    assert "READ by User:* on topic orders.b" in told.problem.message


def test_a_rule_of_two_links_goes_with_the_last() -> None:
    """Whoever finds what another link has made makes it its own as well; who wants it no more says so, and deletes it
    once nobody else wants it, whichever of them is paused for how long. What an operator has made stays nobody's.
    """
    made = rule("alice READ orders")
    found = access_plan(view({made}, FULL, ORDERS, target={made}, link="b", held={made: ["a"]}))
    assert (found.changes, found.settled, found.asks_others) == ((), tuple(ours(made)), True)
    assert access_plan(view({made}, FULL, ORDERS, target={made}, link="b")).settled == ()

    (memory,) = ours(made)
    unwanted = replace(memory, is_unwanted=True)
    for link, other in (("a", "b"), ("b", "a")):
        gone = view(set(), FULL, ORDERS, target={made}, remembered=[memory], link=link, held={made: [other]})
        plan = access_plan(gone)
        assert (deleted(plan), failures(plan), plan.forgotten, plan.settled) == (set(), set(), (), (unwanted,))
        assert [change.problem and change.problem.message for change in plan.changes] == [
            f"link {other} has made it as well: it stays"
        ]
        assert access_plan(replace(gone, remembered=[unwanted])).settled == ()
        back = access_plan(replace(gone, source={made}, remembered=[unwanted]))
        assert (back.changes, back.settled) == ((), (memory,))
        assert deleted(access_plan(replace(gone, remembered=[unwanted], held={}))) == {made}
        gone = replace(gone, target=set(), remembered=[unwanted], held={})
        assert access_plan(gone).forgotten == (made,)


def test_a_denial_stays_as_long_as_another_link_lets_in_whom_it_keeps_out() -> None:
    """That link may be paused, or only look a minute later. What the source itself lets in it may let in here."""
    denial, allowing = rule("!alice READ orders"), rule("alice READ orders")
    gone = view(set(), FULL, ORDERS, target={denial, allowing}, remembered=ours(denial), link="a")
    plan = access_plan(replace(gone, held={allowing: ["b"]}))
    assert (deleted(plan), failures(plan)) == (set(), set())
    (change,) = plan.changes
    assert change.problem is not None
    assert "it stays as long as ALLOW" in change.problem.message
    assert deleted(access_plan(replace(gone, target={denial}))) == {denial}
    assert deleted(access_plan(replace(gone, source={allowing}, held={allowing: ["b"]}))) == {denial}


def test_a_rule_without_another_link_goes_at_once() -> None:
    """As soon as the source has it no more."""
    made = rule("alice READ orders")
    gone = view(set(), FULL, ORDERS, target={made}, remembered=ours(made), link="a")
    last = access_plan(gone)
    assert (deleted(last), last.asks_others) == ({made}, True)
