"""Groups planned, carried once and drilled through the public face."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from isthmus.errors import PlanRefused
from isthmus.groups.positions.carrying import Standing
from isthmus.kafka.client import Client
from isthmus.kafka.groups.groups import list_groups, merge_listings
from isthmus.local import LocalCluster
from isthmus.model.groupsettings import OWN_PREFIX
from testing.groups import consumers
from testing.groups.carrying import between, declared, filled, opened, records
from testing.records.topics import as_admin, create, create_both, produce
from tests.integration.groups.deaf import unlisted

pytestmark = pytest.mark.integration

TopicNamer = Callable[[str], str]


def names_at(cluster: LocalCluster) -> set[str]:
    """The groups of a cluster."""

    async def scenario() -> set[str]:
        async with Client(as_admin(cluster)) as client:
            return set(merge_listings(await list_groups(client)))

    return asyncio.run(scenario())


def test_what_is_planned_is_what_is_done(east: LocalCluster, west: LocalCluster, topic: TopicNamer) -> None:
    """A plan changes nothing; carrying does what it says and leaves nothing to do; the next plan is in step."""
    name, group, nowhere = topic("once"), topic("once"), topic("nowhere")
    filled(east, west, name, 20)
    consumers.commit(east, {group: {(name, 0): 7}, nowhere: {(topic_of(east, topic), 0): 0}})
    consumers.await_coordinator(west.admin_bootstrap_servers, group)
    link = between(east, west, [name], [group, nowhere])
    asyncio.run(declared(link))
    groups = opened(link).groups

    (plan,) = groups.plan()
    found = {each.group: each for each in plan.groups}
    assert (found[group].standing, found[group].positions[0].commit) == (Standing.DUE, 7)
    assert (found[nowhere].standing, found[nowhere].has_changes) == (Standing.NOT_MIRRORED, False)
    assert group not in names_at(west)
    (done,) = groups.sync(group=group)
    assert [(each.standing, each.has_changes) for each in done.groups] == [(Standing.IN_STEP, False)]
    # While its transaction is ending a plan cannot tell where it stands.
    consumers.await_position(west, group, (name, 0), 7, stable=True)
    (again,) = groups.plan(group=group)
    assert not again.has_changes
    assert again.groups[0].positions[0].committed is not None
    assert again.groups[0].positions[0].committed.offset == 7


def test_groups_that_no_broker_listed(
    east: LocalCluster, west: LocalCluster, topic: TopicNamer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that does not list its groups leaves open which there are: that is told, also of those that were carried
    before, and nobody takes the positions at the target for those of the source.
    """
    name, stem = topic("deaf"), topic("deaf")
    carried, new = f"{stem}.carried", f"{stem}.new"
    filled(east, west, name, 20)
    consumers.commit(east, {carried: {(name, 0): 7}})
    link = between(east, west, [name], [f"{stem}.*"])
    asyncio.run(declared(link))
    groups = opened(link).groups
    groups.sync()
    consumers.await_position(west, carried, (name, 0), 7, stable=True)
    consumers.commit(east, {carried: {(name, 0): 9}, new: {(name, 0): 3}})
    with monkeypatch.context() as patch:
        unlisted(patch)
        (deaf,) = groups.sync()
        assert deaf.problem is not None
        assert "not all groups of the source are known" in deaf.problem.message
        assert [(each.group, each.standing) for each in deaf.groups] == [(carried, Standing.UNAVAILABLE)]
    (whole,) = groups.sync()
    assert whole.problem is None
    assert [(each.group, each.standing) for each in whole.groups] == [
        (carried, Standing.IN_STEP),
        (new, Standing.IN_STEP),
    ]


def topic_of(east: LocalCluster, topic: TopicNamer) -> str:
    """A topic that no link mirrors."""
    name = topic("unmirrored")
    create(east, name)
    return name


def test_unknown_groups_are_refused_with_a_hint(east: LocalCluster, west: LocalCluster, topic: TopicNamer) -> None:
    """A name that is nearly right is answered with the right one."""
    name, group = topic("asked"), topic("billing")
    filled(east, west, name, 1)
    consumers.commit(east, {group: {(name, 0): 1}})
    link = between(east, west, [name], [f"{group}*"])
    with pytest.raises(PlanRefused) as refused:
        opened(link).groups.plan(group=f"{group}x")
    assert group in refused.value.hint
    with pytest.raises(PlanRefused, match="no link carries"):
        opened(link).groups.drill("absent")


@pytest.mark.parametrize(
    ("settings", "position", "again"),
    [({}, 8, 0), ({}, 0, 0), ({}, 20, 0), ({"way": "timestamp", "margin_s": 3.0}, 8, 3)],
    ids=["identity", "beginning", "end", "timestamp"],
)
def test_a_drill_skips_nothing(
    east: LocalCluster,
    west: LocalCluster,
    topic: TopicNamer,
    settings: dict[str, Any],
    position: int,
    again: int,
) -> None:
    """Nothing is skipped, only as much is read again as the way states, and no scratch group is left."""
    name, group = topic("drilled"), topic("drilled")
    filled(east, west, name, 20)
    consumers.commit(east, {group: {(name, 0): position}})
    link = between(east, west, [name], [group], **settings)
    asyncio.run(declared(link))
    found = opened(link).groups.drill(group)
    assert (found.skipped, found.read_again, found.problem) == (0, again, None)
    assert sum(each.compared for each in found.positions) == 20 - position
    assert not any(each.startswith(OWN_PREFIX) for each in names_at(west))
    assert group not in names_at(west)


def test_a_drill_finds_what_is_missing(east: LocalCluster, west: LocalCluster, topic: TopicNamer) -> None:
    """A target that holds other records than the source would skip some, and what is still to come is not skipped."""
    name, group = topic("false"), topic("false")
    create_both(east, west, name)
    produce(east, name, records(20))
    produce(west, name, [*records(5), *records(5, begin=100)])
    consumers.commit(east, {group: {(name, 0): 2}})
    link = between(east, west, [name], [group])
    asyncio.run(declared(link))
    found = opened(link).groups.drill(group)
    assert (found.skipped, found.read_again) == (5, 0)
    assert [each.waiting for each in found.positions] == [10]
