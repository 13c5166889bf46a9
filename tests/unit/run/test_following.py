"""What of a link may change while it runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from isthmus.errors import ConfigError
from isthmus.memory.declared import Declared, Merged
from isthmus.model.cluster import ClientProperties, Cluster
from isthmus.model.configsettings import ConfigSettings
from isthmus.model.configuration import Configuration
from isthmus.model.groupsettings import GroupPattern, GroupSettings
from isthmus.model.kafka.access import AccessPolicy, AccessSettings
from isthmus.model.link import DistributorRole, Limits, Link
from isthmus.model.links.declaration import Declaration
from isthmus.model.links.transform import Transform
from isthmus.model.mirrormaker import MirrorMakerNames, MirrorMakerSettings, MirrorMakerTopics
from isthmus.model.namespace import NamespaceKind, NamespaceMap, NamespaceNaming
from isthmus.model.naming import PrefixNaming
from isthmus.model.offsets import LATEST, OffsetPolicy
from isthmus.model.recordfunction import FunctionSource, ModuleSource, RecordFunction
from isthmus.model.selection import TopicPattern, TopicSettings
from isthmus.model.trees.tree import Tree, TreeNode, TreeSettings
from isthmus.model.trees.treedeclaration import TreeDeclaration
from isthmus.run import following
from isthmus.run.following import Acceptance, Following, as_far_as_known, change_of, without_detached

EAST, WEST, NORTH = (Cluster(alias=alias, bootstrap_servers=(f"{alias}:1",)) for alias in ("east", "west", "north"))
ORDERS, BILLS = (TopicPattern.parse(name) for name in ("orders", "bills"))
CARRIED = MirrorMakerTopics(names=MirrorMakerNames(source_alias="east", target_alias="west"), heartbeats=True)
LINK = Link(name="l", source=EAST, target=WEST, topics=TopicSettings(include=(ORDERS,)))


def topics(**settings: Any) -> Link:
    return replace(LINK, topics=replace(LINK.topics, **settings))


def groups(**settings: Any) -> Link:
    return replace(LINK, groups=GroupSettings(**settings))


@pytest.mark.parametrize(
    ("written", "followed"),
    [
        (LINK, ()),
        (topics(include=(ORDERS, BILLS)), ("topics.include",)),
        (topics(exclude=(BILLS,)), ("topics.exclude",)),
        (groups(include=(GroupPattern.parse("g"),)), ("groups.include",)),
        (groups(margin_s=1.0, delete_at_target=True), ("groups.margin_s", "groups.delete_at_target")),
        (replace(LINK, limits=Limits(bytes_per_s=9), on_data_gap="continue"), ("limits", "on_data_gap")),
        (replace(LINK, configs=ConfigSettings(sync=False)), ("configs",)),
        (replace(LINK, access=AccessSettings(policy=AccessPolicy.FULL)), ("access",)),
        (
            replace(topics(mirror_maker=CARRIED), mm2=MirrorMakerSettings(heartbeats=True)),
            ("mm2",),
        ),
    ],
)
def test_what_selects_and_limits_is_followed(written: Link, followed: tuple[str, ...]) -> None:
    """The link goes on as it is written, and each setting that differs is named."""
    change = change_of(LINK, written)
    assert (change.link, change.followed, change.waiting) == (written, followed, ())


@pytest.mark.parametrize(
    ("written", "waiting"),
    [
        (topics(naming=PrefixNaming(target_prefix="x-")), ("topics.naming",)),
        (topics(offsets=OffsetPolicy.MAPPED), ("topics.offsets",)),
        (groups(way="timestamp"), ("groups.way",)),
        (groups(naming=PrefixNaming(target_prefix="x-")), ("groups.naming",)),
        (replace(LINK, source=NORTH), ("source",)),
        (replace(LINK, target=replace(WEST, bootstrap_servers=("other:1",))), ("target",)),
        (replace(LINK, target=replace(WEST, properties=ClientProperties(send_buffer_bytes=4096))), ("target",)),
    ],
)
def test_what_makes_a_link_another_waits_for_its_next_start(written: Link, waiting: tuple[str, ...]) -> None:
    """Clusters, names, offsets and the way of groups stay as they were, and are named."""
    change = change_of(LINK, written)
    assert (change.link, change.followed, change.waiting) == (LINK, (), waiting)


def attaching(*texts: str, kind: NamespaceKind = "topic") -> Link:
    """A declared link with these namespaces of a kind."""
    naming = NamespaceNaming(tuple(NamespaceMap.parse(text, kind) for text in texts))
    return groups(naming=naming) if kind == "group" else topics(naming=naming)


@pytest.mark.parametrize("kind", ["topic", "group"])
def test_namespaces_come_and_go_while_a_link_runs(kind: NamespaceKind) -> None:
    """Those that stay keep their names when others are attached or detached; other ways of naming take a new start."""
    none, one, both = attaching(kind=kind), attaching("a-", kind=kind), attaching("a-", "b-:c-", kind=kind)
    setting = f"{kind}s.naming"
    for before, after in ((none, one), (one, both), (none, both)):
        change = change_of(before, after)
        assert (change.link, change.followed, change.waiting) == (after, (setting,), ())
        change = change_of(after, before)
        assert (change.link, change.followed, change.waiting) == (before, (setting,), ())
    assert change_of(both, attaching("a-", "d-", kind=kind)).followed == (setting,)
    assert change_of(LINK, one).waiting == (setting,)


@pytest.mark.parametrize("kind", ["topic", "group"])
def test_what_goes_is_told_apart_from_what_comes(kind: NamespaceKind) -> None:
    """A link without what was detached has nothing yet of what is attached; one that loses nothing stays as it is."""
    both, other = attaching("a-", "b-:c-", kind=kind), attaching("d-", "a-", "b-:x-", kind=kind)
    assert without_detached(both, other) == attaching("a-", kind=kind)
    assert without_detached(both, attaching("b-:c-", "a-", "d-", kind=kind)) is both
    assert without_detached(LINK, other) is LINK


def test_a_start_so_long_ago_is_no_news() -> None:
    """It is another moment at each reading; topics that are yet to begin do so there. That it is one at all is news."""
    running = LINK
    for start, news in ((1_700_000_000_000, ("topics.start",)), (1_700_000_000_001, ()), (LATEST, ("topics.start",))):
        change = change_of(running, topics(start=start))
        assert (change.link.topics.start, change.followed, change.waiting) == (start, news, ())
        running = change.link


def test_what_no_ledger_has_told_yet_is_as_it_was() -> None:
    """A declared link is not gone because its cluster is slow to tell of it. One of the file is, and one of which
    another ledger tells, if only that it was deleted.
    """
    clusters = (EAST, WEST, NORTH)
    written = replace(LINK, name="written")
    before = Configuration(clusters=clusters, links=(written, LINK), declared=frozenset({"l"}))
    now = Configuration(clusters=clusters, links=(), declared=frozenset())
    assert as_far_as_known(before, now, Declared(unread=frozenset({"north"}))) == now
    for unread in ("east", "west"):
        untold = Declared(unread=frozenset({unread}))
        kept = as_far_as_known(before, now, untold)
        assert (kept.links, kept.declared) == ((LINK,), frozenset({"l"}))
        assert as_far_as_known(kept, now, untold) == kept
        told = replace(untold, links=Merged({"l": Declaration(name="l", registers=())}))
        assert as_far_as_known(before, now, told) == now
    other = replace(LINK, groups=GroupSettings(margin_s=1.0))
    for changed in (replace(now, links=(other,)), replace(now, links=(other,), declared=frozenset({"l"}))):
        assert as_far_as_known(before, changed, Declared(unread=frozenset({"east"}))) == changed


def test_a_tree_that_no_ledger_has_told_yet_is_as_it_was() -> None:
    """It stays with its distributors, until a ledger tells of it."""
    copying = replace(LINK, distributor=DistributorRole(tree="t", level=1))
    before = Configuration(
        clusters=(EAST, WEST),
        links=(copying,),
        trees=(TreeSettings(tree=Tree(name="t", root=TreeNode(level=1, children=("east", "west")))),),
        declared=frozenset(),
        declared_trees=frozenset({"t"}),
    )
    now = replace(before, links=(), trees=(), declared_trees=frozenset())
    untold = Declared(unread=frozenset({"west"}))
    assert as_far_as_known(before, now, untold) == before
    assert (
        as_far_as_known(before, now, replace(untold, trees=Merged({"t": TreeDeclaration(name="t", registers=())})))
        == now
    )


def test_a_chosen_leaf_that_no_ledger_has_told_yet_is_as_it_was() -> None:
    """A distributor does not go elsewhere because the ledger of its source is slow to tell of the choice. Where a link
    of the file goes, the file says.
    """
    clusters, role = (EAST, WEST, NORTH), DistributorRole(tree="t", level=1)
    for distributor, is_kept in ((role, True), (None, False)):
        before, now = (
            Configuration(clusters=clusters, links=(replace(LINK, target=end, distributor=distributor),))
            for end in (NORTH, WEST)
        )
        assert as_far_as_known(before, now, Declared(unread=frozenset({"west", "north"}))) == replace(
            now, declared=frozenset()
        )
        after = as_far_as_known(before, now, Declared(unread=frozenset({"east"})))
        assert after.links == (before if is_kept else now).links


def test_each_setting_is_followed_or_known_to_wait() -> None:
    """A new setting of a link is followed while it runs: who adds one that cannot be decides so here."""
    assert following.TOPICS == ("include", "exclude", "start", "remote", "replication_factor", "mirror_maker")
    assert following.GROUPS == ("include", "exclude", "margin_s", "commit", "delete_at_target")
    assert set(following.OWN) == {
        *("configs", "access", "limits", "transactions", "mode", "mode_said", "sync", "mm2", "distributor"),
        *("transforms", "on_data_gap", "on_divergence", "on_source_deleted", "compaction_holes_max"),
        "topics_interval_s",
    }


def reading(digest: str, *modules: str, missing: tuple[str, ...] = (), name: str = "l") -> Configuration:
    """A configuration with a function of this source, "" for none."""
    found = tuple(ModuleSource(each, f"/etc/{each}.py", "", is_package=False, locations=()) for each in modules)
    source = FunctionSource(digest, found, frozenset(missing)) if digest else None
    transform = Transform(python=RecordFunction("rules", "clean", "/etc", source))
    return Configuration(clusters=(EAST, WEST), links=(replace(LINK, name=name, transforms=(transform,)),))


BEFORE = reading("one", "rules", "words")


def test_modules_that_come_one_after_the_other_are_taken_together() -> None:
    """What is read every few seconds is taken when two readings in a row, so long apart, have the same modules."""
    half, both = reading("two", "rules", "words"), reading("three", "rules", "words")
    acceptance = Acceptance(Following(is_constant=True), 2.0)
    assert acceptance.accept(BEFORE, half, 0.0) is None
    assert acceptance.accept(BEFORE, both, 2.0) is None
    assert acceptance.accept(BEFORE, half, 4.0) is None
    assert acceptance.accept(BEFORE, both, 6.0) is None
    assert acceptance.accept(BEFORE, both, 7.0) is None
    assert acceptance.accept(BEFORE, both, 8.0) is both


def test_what_changes_no_module_is_taken_at_once() -> None:
    """So is all that is read for SIGHUP alone."""
    renamed, edited = reading("one", "rules", "words", name="other"), reading("two", "rules", "words")
    assert Acceptance(Following(is_constant=True), 2.0).accept(BEFORE, renamed, 0.0) is renamed
    assert Acceptance(Following(), 2.0).accept(BEFORE, edited, 0.0) is edited


def test_a_reading_that_is_refused_breaks_the_row() -> None:
    """Files change still."""
    edited = reading("two", "rules", "words")
    acceptance = Acceptance(Following(is_constant=True), 2.0)
    assert acceptance.accept(BEFORE, edited, 0.0) is None
    acceptance.break_off()
    assert acceptance.accept(BEFORE, edited, 4.0) is None
    assert acceptance.accept(BEFORE, edited, 6.0) is edited


def test_a_module_that_is_gone_is_refused() -> None:
    """Of the function or of what it imports still: tasks would import whatever is there. One that nothing imports any
    more may go, and a function without source before needs none.
    """
    acceptance = Acceptance(Following(), 2.0)
    with pytest.raises(ConfigError, match="rules of transform rules:clean is not found") as raised:
        acceptance.accept(BEFORE, reading(""), 0.0)
    assert "Put it back" in raised.value.hint
    with pytest.raises(ConfigError, match="words of transform rules:clean is not found"):
        acceptance.accept(BEFORE, reading("two", "rules", missing=("words",)), 0.0)
    less, none = reading("two", "rules", missing=("other",)), reading("")
    assert acceptance.accept(BEFORE, less, 0.0) is less
    assert acceptance.accept(none, none, 0.0) is none
