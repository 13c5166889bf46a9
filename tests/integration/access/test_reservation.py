"""Access rules keep others out of a reserved namespace, on brokers with an authorizer, and go to the last one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from confluent_kafka import KafkaError
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from isthmus.access.enforcement import Keeping, make
from isthmus.errors import ClusterError, ConfigError, NotAuthorized, PlanRefused
from isthmus.fabric.fabric import Fabric, Namespaces
from isthmus.kafka.client import Client
from isthmus.local import LocalCluster
from isthmus.loops.loop import LinkView
from isthmus.memory.declarations import Declarations
from isthmus.model.cluster import Login
from isthmus.model.configuration import Configuration, LedgerSettings
from isthmus.model.groupsettings import GroupPattern, GroupSettings
from isthmus.model.links.declaration import attachment
from isthmus.model.links.reservation import Reservation
from isthmus.model.links.writability import KeptBy, NamespaceState
from isthmus.model.namespace import Namespace, NamespaceMap, NamespaceNaming
from isthmus.model.problem import Problem
from isthmus.namespaces import namespaces as namespaces_module
from isthmus.namespaces.reservations import ReservationsLoop
from isthmus.topics.plan import LinkPlan
from testing.groups import consumers
from testing.links.reserving import admin_of, as_isthmus, rules_at, until, written
from testing.patience import TERM_S
from testing.records import topics
from testing.runs.running import configuration_of, link_of
from testing.verbs import AsyncDeclaredLinks, AsyncNamespaces

pytestmark = pytest.mark.integration

Namer = Callable[[str], str]
_FIELDS = ("restype", "name", "resource_pattern_type", "principal", "host", "operation", "permission_type")


async def cut_off(*_: object) -> None:
    """What is left of a command that loses its cluster."""
    raise ClusterError("cut off")


def test_a_super_user_closes_a_namespace(guarded: LocalCluster, topic: Namer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody else writes to it, everybody reads on, and other topics are open; released, all rules are as before. It
    is RELEASING until then, whatever interrupts that.
    """
    prefix = topic("closed")
    inside, outside = f"{prefix}-1", topic("open")
    for name in (inside, outside):
        topics.create(guarded, name)
    before = rules_at(guarded)
    namespaces, space = Namespaces(admin_of(guarded), LedgerSettings()), Namespace.of(f"{prefix}-")
    namespaces.create(space)
    foreseen = namespaces.enforce(space, super_user=True, dry_run=True)
    assert isinstance(foreseen.in_force, Reservation)
    assert foreseen.in_force.missing
    assert rules_at(guarded) == before

    closed = namespaces.enforce(space, super_user=True)
    assert isinstance(closed.in_force, Reservation)
    assert closed.in_force.open == ()
    assert namespaces.describe(space).kept_by is KeptBy.ACCESS_RULES
    # A rule reaches the part of a broker that judges a moment after it is told.
    assert until(lambda: written(as_isthmus(guarded), inside)) == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert written(as_isthmus(guarded), outside) is None
    assert written({"bootstrap.servers": guarded.admin_bootstrap_servers}, inside) is None
    login = {name.replace(".", "_"): value for name, value in as_isthmus(guarded).items()}
    with consumers.joined(guarded, topic("readers"), inside, **login) as reader:
        message = reader.poll(TERM_S)
        assert message is not None
        assert message.value() == b"mine"

    # Doing it again makes no more rules, and taking it back leaves none, though it was interrupted.
    made = rules_at(guarded)
    namespaces.enforce(space, super_user=True)
    assert rules_at(guarded) == made
    (listed,) = (each for each in namespaces.all() if each.namespace == space)
    assert (listed.state, listed.waits_for) == (NamespaceState.RESERVED, ())
    with monkeypatch.context() as patched:
        patched.setattr(namespaces_module, "take_back", cut_off)
        with pytest.raises(ClusterError, match="cut off"):
            namespaces.update(space, reserved=False)
    released = namespaces.describe(space)
    assert (released.state, released.is_reserved) == (NamespaceState.RELEASING, False)
    assert any("still has the rule DENY WRITE" in each for each in released.waits_for)
    assert rules_at(guarded) == made
    assert namespaces.update(space, reserved=False).state is NamespaceState.WRITABLE
    assert rules_at(guarded) == before
    assert until(lambda: written(as_isthmus(guarded), inside), refused=False) is None


def test_who_keeps_others_out_until_rules_do(
    guarded: LocalCluster, topic: Namer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing says that brokers keep others out before they do, so that gateways refuse them until then, wherever a
    command is cut off; given again it goes on. Where no rules may be made nothing is said, nor left behind.
    """
    prefix = topic("order")
    topics.create(guarded, f"{prefix}-1")
    namespaces, space = Namespaces(admin_of(guarded), LedgerSettings()), Namespace.of(f"{prefix}-")
    before = rules_at(guarded)

    async def made_and_cut_off(*args: Any) -> None:
        await make(*args)
        await cut_off()

    namespaces.create(space)
    for step in (cut_off, made_and_cut_off):
        with monkeypatch.context() as patched:
            patched.setattr(namespaces_module, "make", step)
            with pytest.raises(ClusterError, match="cut off"):
                namespaces.enforce(space, super_user=True)
        assert (rules_at(guarded) != before) is (step is made_and_cut_off)
        assert namespaces.describe(space).kept_by is KeptBy.AGREED_ONLY
    found = namespaces.enforce(space, super_user=True)
    assert (found.state, found.kept_by) == (NamespaceState.RESERVED, KeptBy.ACCESS_RULES)
    assert until(lambda: written(as_isthmus(guarded), f"{prefix}-1")) == KafkaError.TOPIC_AUTHORIZATION_FAILED
    namespaces.update(space, reserved=False)
    assert rules_at(guarded) == before

    admin = AdminClient({"bootstrap.servers": guarded.admin_bootstrap_servers})
    about = (ResourceType.BROKER, "kafka-cluster", ResourcePatternType.LITERAL, "User:isthmus", "*")
    unallowed = AclBinding(*about, AclOperation.ALTER, AclPermissionType.DENY)
    for future in admin.create_acls([unallowed]).values():
        future.result(TERM_S)
    try:
        own = Namespaces(guarded.cluster(), LedgerSettings())
        deadline = time.monotonic() + TERM_S
        while str(unallowed) not in rules_at(guarded):
            assert time.monotonic() < deadline
        with pytest.raises(NotAuthorized, match="ALTER"):
            own.enforce(space, keep=["User:nobody"])
        assert own.describe(space).kept_by is None
        # Whoever may make no rules cannot take any back: there are none to take.
        own.delete(space)
    finally:
        for deletion in admin.delete_acls([AclBindingFilter(*(getattr(unallowed, name) for name in _FIELDS))]).values():
            deletion.result(TERM_S)


def test_a_link_that_is_no_super_user_stays_in(guarded: LocalCluster, topic: Namer) -> None:
    """Everybody with a right to write gets a rule against it but the link's own login; other people's rules stay."""
    prefix = topic("kept")
    topics.create(guarded, f"{prefix}-1")
    own = Namespaces(guarded.cluster(), LedgerSettings())
    space = Namespace.of(f"{prefix}-")
    admin = AdminClient({"bootstrap.servers": guarded.admin_bootstrap_servers})

    def rule(principal: str, permission: AclPermissionType = AclPermissionType.ALLOW) -> AclBinding:
        about = (ResourceType.TOPIC, prefix, ResourcePatternType.PREFIXED, principal, "*")
        return AclBinding(*about, AclOperation.WRITE, permission)

    for future in admin.create_acls([rule("User:alice"), rule("User:bob")]).values():
        future.result(TERM_S)
    own.create(space)
    before = rules_at(guarded)
    closed = own.enforce(space)
    assert isinstance(closed.in_force, Reservation)
    assert closed.in_force.open == ()
    assert written(as_isthmus(guarded), f"{prefix}-1") is None
    new = rules_at(guarded) - before
    assert len(new) == 2
    assert all(f"User:{name}" in "".join(new) for name in ("alice", "bob"))
    # Whoever is let in afterwards is told, until it is enforced again.
    for future in admin.create_acls([rule("User:carol")]).values():
        future.result(TERM_S)
    deadline = time.monotonic() + TERM_S
    while str(rule("User:carol")) not in rules_at(guarded):
        assert time.monotonic() < deadline
    told = own.describe(space).in_force
    assert isinstance(told, Reservation)
    assert [each.principal for each in told.open] == ["User:carol"]
    assert rules_at(guarded) - before - new == {str(rule("User:carol"))}
    found = own.describe(space)
    assert found.state is NamespaceState.RESERVING
    assert [each.partition("rule ")[2] for each in found.waits_for] == [f"WRITE by User:carol on topics {prefix}*"]
    assert own.enforce(space).state is NamespaceState.RESERVED
    assert isinstance(own.describe(space).in_force, Reservation)
    own.relax(space)
    assert rules_at(guarded) - before == {str(rule("User:carol"))}
    assert own.describe(space).is_reserved
    own.delete(space)


def test_a_link_renews_what_keeps_others_out(guarded: LocalCluster, east: LocalCluster, topic: Namer) -> None:
    """A rule that somebody deleted, and one against a right that was given since, are made by the link's loop; all of
    them are taken back with the others, and then no more are made.
    """
    prefix = topic("renewed")
    topics.create(guarded, f"{prefix}-1")
    own = Namespaces(guarded.cluster(), LedgerSettings())
    space = Namespace.of(f"{prefix}-")
    admin = AdminClient({"bootstrap.servers": guarded.admin_bootstrap_servers})
    naming = NamespaceNaming((NamespaceMap(source=space, target=space),))
    link = link_of(east.cluster(), guarded.cluster(), f"{prefix}-*", name=prefix)
    link = replace(link, topics=replace(link.topics, naming=naming))

    def rule(principal: str, permission: AclPermissionType) -> AclBinding:
        about = (ResourceType.TOPIC, f"{prefix}-", ResourcePatternType.PREFIXED, principal, "*")
        return AclBinding(*about, AclOperation.WRITE, permission)

    def there(*rules: AclBinding) -> bool:
        return {str(each) for each in rules} <= rules_at(guarded)

    def given(principal: str) -> None:
        allow = rule(principal, AclPermissionType.ALLOW)
        for future in admin.create_acls([allow]).values():
            future.result(TERM_S)
        deadline = time.monotonic() + TERM_S
        while not there(allow):
            assert time.monotonic() < deadline

    async def passed() -> list[str]:
        """One pass of the loop; what it found missing."""
        loop = ReservationsLoop()
        async with Client(link.source) as source, Client(link.target) as target:
            plan = LinkPlan(link=link.name, source="east", target="guarded")
            view = LinkView(link=link, source=source, target=target, plan=plan)
            found = await loop.look(view)
            assert await loop.apply(view, found) == []
            return sorted(change.setting for change in found)

    given("User:alice")
    own.create(space)
    before = rules_at(guarded)
    own.enforce(space)
    assert asyncio.run(passed()) == []
    denials = [rule(f"User:{name}", AclPermissionType.DENY) for name in ("alice", "carol")]
    lost = AclBindingFilter(*(getattr(denials[0], name) for name in _FIELDS))
    for deletion in admin.delete_acls([lost]).values():
        deletion.result(TERM_S)
    given("User:carol")
    deadline = time.monotonic() + TERM_S
    while there(denials[0]):
        assert time.monotonic() < deadline
    assert asyncio.run(passed()) == ["WRITE by User:alice", "WRITE by User:carol"]
    assert there(*denials)
    assert asyncio.run(passed()) == []
    own.relax(space)
    assert asyncio.run(passed()) == []
    assert rules_at(guarded) - before == {str(rule("User:carol", AclPermissionType.ALLOW))}
    own.delete(space)


def meanwhile(monkeypatch: pytest.MonkeyPatch, step: str, what: Callable[[], object]) -> None:
    """Have somebody else do this after a command has looked, and before its next step of that name."""
    take: Any = getattr(namespaces_module, step, None)
    owner: Any = namespaces_module if take is not None else Declarations
    take = take or getattr(Declarations, step)

    async def late(*args: Any, **options: Any) -> Any:
        monkeypatch.setattr(owner, step, take)
        await asyncio.to_thread(what)
        return await take(*args, **options)

    monkeypatch.setattr(owner, step, late)


def test_two_operators_of_a_namespace_at_once(
    guarded: LocalCluster, topic: Namer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What one says of it and the rules made for it are kept when another one says something else meanwhile, whoever
    says otherwise of the same is told by whom and when, and no rule is left behind that nobody knows of.
    """
    prefix = topic("contested")
    topics.create(guarded, f"{prefix}-1")
    namespaces, space = Namespaces(admin_of(guarded), LedgerSettings()), Namespace.of(f"{prefix}-")
    before = rules_at(guarded)

    def close() -> object:
        return namespaces.enforce(space, super_user=True)

    namespaces.create(space)
    meanwhile(monkeypatch, "write_namespace", close)
    assert namespaces.update(space, async_only=True).is_reserved
    assert namespaces.describe(space).is_async_only
    assert rules_at(guarded) != before
    namespaces.relax(space)
    assert rules_at(guarded) == before

    meanwhile(monkeypatch, "write_namespace", lambda: namespaces.update(space, reserved=False))
    with pytest.raises(PlanRefused, match=r"was changed meanwhile: .* set reserved to false at 2\d{3}-"):
        namespaces.enforce(space, super_user=True)
    assert rules_at(guarded) == before

    # Opened after the rules were remembered, and before they were made.
    meanwhile(monkeypatch, "make", lambda: namespaces.relax(space))
    with pytest.raises(PlanRefused, match=f"{prefix}.* was opened meanwhile by"):
        namespaces.enforce(space, super_user=True)
    assert rules_at(guarded) == before

    close()
    meanwhile(monkeypatch, "write_namespace", lambda: namespaces.relax(space))
    assert asyncio.run(AsyncNamespaces(admin_of(guarded), LedgerSettings()).renew(space)) == ()
    assert rules_at(guarded) == before

    # Closed again after it was said that it is open: before its rules go, and after.
    for step in ("take_back", "write_namespace"):
        close()
        closed = rules_at(guarded)
        second = partial(meanwhile, monkeypatch, step, close)
        if step == "take_back":
            second()
        else:
            meanwhile(monkeypatch, "write_namespace", second)
        namespaces.relax(space)
        assert rules_at(guarded) == closed
        namespaces.relax(space)
        assert rules_at(guarded) == before

    meanwhile(monkeypatch, "delete_namespace", close)
    with pytest.raises(PlanRefused, match="was changed meanwhile"):
        namespaces.delete(space)
    namespaces.delete(space)
    assert rules_at(guarded) == before

    meanwhile(monkeypatch, "write_namespace", lambda: namespaces.create(space, reserved=True))
    with pytest.raises(PlanRefused, match="declared already"):
        namespaces.create(space)
    meanwhile(monkeypatch, "write_namespace", lambda: namespaces.delete(space))
    with pytest.raises(PlanRefused, match="was deleted meanwhile"):
        namespaces.update(space, async_only=True)


def test_two_operators_leave_somebody_else_in(
    guarded: LocalCluster, topic: Namer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who closes a namespace that another one closed meanwhile, so that it leaves somebody else in, is told so, and no
    rule of his keeps that one out.
    """
    prefix = topic("contested")
    topics.create(guarded, f"{prefix}-1")
    namespaces, space = Namespaces(admin_of(guarded), LedgerSettings()), Namespace.of(f"{prefix}-")
    before = rules_at(guarded)
    namespaces.create(space)
    meanwhile(monkeypatch, "make", lambda: namespaces.enforce(space, keep=["User:isthmus"]))
    with pytest.raises(PlanRefused, match=f"{prefix}.* was changed meanwhile: .* set kept"):
        namespaces.enforce(space, super_user=True)
    assert namespaces.describe(space).state is NamespaceState.RESERVED
    assert until(lambda: written(as_isthmus(guarded), f"{prefix}-1"), refused=False) is None
    namespaces.delete(space)
    assert rules_at(guarded) == before


def test_a_group_that_is_reserved_commits_nothing(guarded: LocalCluster, east: LocalCluster, topic: Namer) -> None:
    """Its consumers cannot join or commit at the follower (KIP-986, footnote 9), and whoever lists groups is told."""
    group, name = topic("app"), topic("read")
    topics.create(guarded, name)
    namespaces, space = Namespaces(admin_of(guarded), LedgerSettings()), Namespace.of(group, "group", is_exact=True)
    namespaces.create(space)
    link = link_of(east.cluster(), admin_of(guarded), name, name=group)
    naming = NamespaceNaming((NamespaceMap(source=space, target=space),))
    own = GroupSettings(include=(GroupPattern.parse("*"),), naming=naming)
    groups = Fabric(configuration_of(replace(link, groups=own))).groups
    assert [plan.closed for plan in groups.plan()] == [()]
    namespaces.enforce(space, super_user=True)
    assert [plan.closed for plan in groups.plan()] == [(space,)]
    login = {name.replace(".", "_"): value for name, value in as_isthmus(guarded).items()}
    consumer = consumers.consumer(guarded, group, **login)
    consumer.subscribe([name])

    def polled() -> KafkaError | None:
        message = consumer.poll(1.0)
        return None if message is None else message.error()

    assert until(polled) == KafkaError.GROUP_AUTHORIZATION_FAILED
    consumer.close()
    namespaces.delete(space)
    with consumers.joined(guarded, group, name, **login):
        pass


def test_what_rules_cannot_close_is_said(guarded: LocalCluster, east: LocalCluster, topic: Namer) -> None:
    """Without an authorizer, for all names at once, or without knowing who the link is."""
    prefix = topic("bare")
    plain, space = Namespaces(east.cluster(), LedgerSettings()), Namespace.of(f"{prefix}-")
    plain.create(space, reserved=True)
    assert isinstance(plain.describe(space).in_force, Problem)
    (listed,) = [each for each in plain.all() if each.namespace == space]
    assert (listed.state, listed.kept_by) == (NamespaceState.RESERVED, KeptBy.AGREED_ONLY)
    with pytest.raises(PlanRefused, match="cannot be closed by access rules"):
        plain.enforce(space, super_user=True)
    plain.delete(space)
    admin = Namespaces(admin_of(guarded), LedgerSettings())
    admin.create(space)
    with pytest.raises(PlanRefused, match="no principal would be left that may write"):
        admin.enforce(space)
    admin.delete(space)


def test_a_link_closes_what_it_attaches(guarded: LocalCluster, east: LocalCluster, topic: Namer) -> None:
    """Its topics and groups as they are attached; where rules cannot do that nothing is declared."""
    name = topic("closing")
    first, more = NamespaceMap.parse(f"{name}.a-"), NamespaceMap.parse(f"{name}.b-")
    groups = NamespaceMap.parse(f"{name}.", "group")
    fabric = Fabric(Configuration(clusters=(east.cluster(), admin_of(guarded)), links=()))
    links, namespaces = fabric.declarations, fabric.cluster(guarded.name).namespaces
    create = partial(links.create, name, validate=False)
    keep, before = Keeping(has_super_user=True), rules_at(guarded)
    with pytest.raises(PlanRefused, match="cannot be closed by access rules"):
        create(source=guarded.name, target=east.name, maps=[first], enforce=keep)
    with pytest.raises(PlanRefused, match="no principal would be left that may write"):
        create(source=east.name, target=guarded.name, maps=[first], enforce=Keeping())
    with pytest.raises(ConfigError, match=f"no link {name} is declared"):
        links.describe(name)
    create(source=east.name, target=guarded.name, maps=[first, groups], enforce=keep)
    links.attach(name, [more], enforce=keep)
    last = NamespaceMap.parse(f"{name}.c-")
    links.attach(name, [last])
    asyncio.run(AsyncDeclaredLinks(fabric.configuration).change(name, lambda _: {attachment(last): False}))
    links.reattach(name, [last], enforce=keep)
    for each in (first, groups, more, last):
        found = namespaces.describe(each.target).in_force
        assert isinstance(found, Reservation)
        assert not found.missing
    assert rules_at(guarded) != before
    links.delete(name)
    for each in (first, groups, more, last):
        namespaces.delete(each.target)
    assert rules_at(guarded) == before


def test_a_links_own_login_stays_in(
    guarded: LocalCluster, east: LocalCluster, topic: Namer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rules that the operator's login makes leave the link in as whom it logs in itself; those that kept it out go once
    it is kept, and it gets no login that rules would keep out, be they what an interrupted command has left.
    """
    name = topic("own")
    maps = [NamespaceMap.parse(f"{name}.a-")]
    space = maps[0].target
    mirror = Login(name="mirror", security=guarded.cluster().security)
    target = replace(guarded.cluster(user="admin"), logins=(mirror,))
    fabric = Fabric(Configuration(clusters=(east.cluster(), target), links=()))
    links, namespaces = fabric.declarations, fabric.cluster(guarded.name).namespaces
    before = rules_at(guarded)
    create = partial(links.create, name, source=east.name, target=guarded.name, maps=maps, validate=False)
    create(settings={"target_login": "mirror"}, enforce=Keeping())
    assert rules_at(guarded) == before
    namespaces.enforce(space, keep=["User:admin"])
    assert rules_at(guarded) != before
    namespaces.enforce(space)
    assert rules_at(guarded) == before
    with pytest.raises(PlanRefused, match="User:admin at guarded, whom access rules would keep out") as refused:
        links.update(name, settings={"target_login": None})
    asked = f"isthmus namespace update guarded '{space}' --enforce --keep User:admin --keep User:isthmus first."
    assert refused.value.hint == asked
    namespaces.enforce(space, keep=["User:admin", "User:isthmus"])
    links.update(name, settings={"target_login": None})
    namespaces.relax(space)
    with monkeypatch.context() as patched:

        async def cut_off(*_: object, **__: object) -> None:
            raise ClusterError("cut off")

        patched.setattr(namespaces_module, "await_closed", cut_off)
        with pytest.raises(ClusterError, match="cut off"):
            namespaces.enforce(space, keep=["User:admin"])
    with pytest.raises(
        PlanRefused, match="was interrupted has left access rules at guarded that keep User:isthmus out"
    ):
        links.update(name, settings={"target_login": "mirror"})
    namespaces.relax(space)
    links.update(name, settings={"target_login": "mirror"})
    links.delete(name)
    namespaces.delete(space)
    assert rules_at(guarded) == before
