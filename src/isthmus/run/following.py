"""The settings of a link that may change while it runs, by the configuration of now. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from isthmus.errors import ConfigError
from isthmus.memory.declared import Declared
from isthmus.model.cluster import Cluster
from isthmus.model.configuration import Configuration
from isthmus.model.groupsettings import GroupSettings
from isthmus.model.link import Link
from isthmus.model.namespace import NamespaceMap, NamespaceNaming
from isthmus.model.naming import Naming
from isthmus.model.recordfunction import RecordFunction
from isthmus.model.selection import TopicSettings

Reread = Callable[[], Configuration]
"""Reads the configuration as it is written now; raises ConfigError where it cannot be used."""
OnConfiguration = Callable[[Configuration], None]
_FIXED: Final = (("topics", "naming"), ("topics", "offsets"), ("groups", "naming"), ("groups", "way"))
_NAMED: Final = ("topics", "groups")
"""Settings with namespaces, whose names stay while others are attached or detached."""


def _list_fields(kind: type[Any], *without: str) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind) if field.name not in without)


TOPICS: Final = _list_fields(TopicSettings, *(name for part, name in _FIXED if part == "topics"))
GROUPS: Final = _list_fields(GroupSettings, "offsets_copy", *(name for part, name in _FIXED if part == "groups"))
OWN: Final = _list_fields(Link, "name", "source", "target", *_NAMED)


@dataclass(frozen=True, slots=True)
class Following:
    """How a run learns of changes: by calling `reread` on SIGHUP, and every few seconds if `is_constant`.

    If `written`, the file's configuration, is given, links that are declared on its clusters are followed all the time.
    `on_configuration` is called with the configuration in use, whenever that may have changed.
    """

    reread: Reread | None = None
    is_constant: bool = False
    written: Configuration | None = None
    on_configuration: OnConfiguration = lambda _: None


def as_far_as_known(before: Configuration, now: Configuration, declared: Declared) -> Configuration:
    """Return the configuration for a run that had `before`, where `now` has what is `declared` in ledgers read so far.

    A declared link that none of them has, not even as deleted, stays while the ledger of its source or of its target
    was never read. So does the leaf that a distributor copies to, which the ledger of its source has.
    """
    if not declared.unread:
        return now

    def may_be_declared(link: Link) -> bool:
        ends = link.source.alias, link.target.alias
        return not declared.unread.isdisjoint(ends) and not declared.tells_of(link)

    in_file = {link.name for link in before.written.links}
    links = {link.name: link for link in now.links}
    kept: list[Link] = []
    for link in before.links:
        known = links.get(link.name)
        if known is not None:
            if link.tree and link.source.alias in declared.unread and known.target.alias != link.target.alias:
                links[link.name] = link
        elif link.name not in in_file and may_be_declared(link):
            kept.append(link)
    trees = {link.tree for link in kept} - {each.tree.name for each in now.trees}
    return replace(
        now,
        links=(*links.values(), *kept),
        trees=(*now.trees, *(each for each in before.trees if each.tree.name in trees)),
        declared=(now.declared or frozenset()) | {link.name for link in kept if not link.tree},
        declared_trees=now.declared_trees | (trees - {""}),
    )


class Acceptance:
    """Whether a run takes a configuration that it has read again, by the sources of the functions in it.

    Where files are read all the time, as `following` says, functions are taken that were the same ones in two readings
    in a row, `follow_s` apart: modules come one after the other.
    """

    def __init__(self, following: Following, follow_s: float) -> None:
        self._steady_s = follow_s if following.is_constant else 0.0
        self._awaited: tuple[frozenset[RecordFunction], float] | None = None

    def accept(self, before: Configuration, now: Configuration, begun: float) -> Configuration | None:
        """Return what was read from `begun` on, `None` if it is not to be taken yet.

        :raises ConfigError: A module that functions of `before` had is gone.
        """
        _require_sources(before, now)
        functions, awaited = _list_functions(now), self._awaited
        since = awaited[1] if awaited is not None and awaited[0] == functions else begun
        is_taken = functions <= _list_functions(before) or begun - since >= self._steady_s
        self._awaited = None if is_taken else (functions, since)
        return now if is_taken else None

    def break_off(self) -> None:
        """Begin anew, after a reading that cannot be used."""
        self._awaited = None


def _list_functions(configuration: Configuration) -> frozenset[RecordFunction]:
    transforms = (transform for link in configuration.links for transform in link.transforms)
    return frozenset(each.python for each in transforms if each.python is not None)


def _require_sources(before: Configuration, now: Configuration) -> None:
    had = {replace(each, source=None): each.source for each in _list_functions(before)}
    for function in _list_functions(now):
        source = had.get(replace(function, source=None))
        if source is None:
            continue
        # Without any source it is the function's own module.
        missing = {function.module} if function.source is None else function.source.missing
        gone = next((each for each in source.modules if each.name in missing), None)
        if gone is not None:
            raise ConfigError(
                f"module {gone.name} of transform {function} is not found any more, or has no source: it was read from "
                f"{gone.path or ', '.join(gone.locations)}",
                hint="Put it back. To do without its source, start the run again.",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkChange:
    """A running link with its new settings. `followed` are the settings that differ, `waiting` those that differ too
    and take effect when the link is restarted.
    """

    link: Link
    followed: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()


def change_of(running: Link, written: Link) -> LinkChange:
    """Return how a running link changes, now that this is written of it."""
    topics = {name: getattr(written.topics, name) for name in TOPICS}
    groups = {name: getattr(written.groups, name) for name in GROUPS}
    own: dict[str, Any] = {name: getattr(written, name) for name in OWN}
    renamed = [kind for kind in _NAMED if _is_renamed(getattr(running, kind).naming, getattr(written, kind).naming)]
    for kind, settings in (("topics", topics), ("groups", groups)):
        if kind in renamed:
            settings["naming"] = getattr(written, kind).naming
    link = replace(running, topics=replace(running.topics, **topics), groups=replace(running.groups, **groups), **own)
    followed = [
        *(f"{kind}.naming" for kind in renamed),
        *(f"topics.{name}" for name in TOPICS if getattr(running.topics, name) != topics[name]),
        *(f"groups.{name}" for name in GROUPS if getattr(running.groups, name) != groups[name]),
        *(name for name in OWN if getattr(running, name) != own[name]),
    ]
    waiting = [name for name in ("level", "tree") if getattr(running, name) != getattr(written, name)]
    waiting += [".".join(path) for path in _FIXED if _setting(link, path) != _setting(written, path)]
    # Passwords and certificates are read again without a change here.
    ends = [side for side in ("source", "target") if _address(running, side) != _address(written, side)]
    # A change of `mm2` for topics is reported by itself.
    untold = {"topics.mirror_maker", "mode_said"}
    if min(running.topics.start, written.topics.start) >= 0:
        # A start at an age is another timestamp at each reading, and counts only for topics that have not begun.
        untold.add("topics.start")
    reported = tuple(name for name in followed if name not in untold)
    return LinkChange(link=link, followed=reported, waiting=(*ends, *waiting))


def without_detached(running: Link, written: Link) -> Link:
    """Return a running link without the namespaces that are no longer written of it."""
    topics, groups = (_keep_written(getattr(running, kind).naming, getattr(written, kind).naming) for kind in _NAMED)
    return _with_naming(running, topics, groups)


def without(link: Link, maps: Collection[NamespaceMap]) -> Link:
    """Return a declared link without these namespaces; itself where it has none of them."""
    topics, groups = (_without_maps(getattr(link, kind).naming, maps) for kind in _NAMED)
    return _with_naming(link, topics, groups)


def _with_naming(link: Link, topics: Naming, groups: Naming) -> Link:
    if (topics, groups) == (link.topics.naming, link.groups.naming):
        return link
    return replace(link, topics=replace(link.topics, naming=topics), groups=replace(link.groups, naming=groups))


def _without_maps(naming: Naming, maps: Collection[NamespaceMap]) -> Naming:
    if not isinstance(naming, NamespaceNaming):
        return naming
    return NamespaceNaming(tuple(each for each in naming.maps if each not in maps))


def _keep_written(running: Naming, written: Naming) -> Naming:
    if not (isinstance(running, NamespaceNaming) and isinstance(written, NamespaceNaming)):
        return running
    return NamespaceNaming(tuple(each for each in running.maps if each in written.maps))


def _is_renamed(running: Naming, written: Naming) -> bool:
    """Whether namespaces come or go, while names within those that stay are as they were."""
    if not (isinstance(running, NamespaceNaming) and isinstance(written, NamespaceNaming)):
        return False
    return set(running.maps) != set(written.maps)


def _setting(link: Link, path: tuple[str, str]) -> object:
    return getattr(getattr(link, path[0]), path[1])


def _address(link: Link, side: str) -> tuple[object, ...]:
    cluster: Cluster = getattr(link, side)
    proxy = cluster.proxy and (str(cluster.proxy), cluster.proxy.username)
    return (
        cluster.alias,
        cluster.bootstrap_servers,
        cluster.addresses,
        proxy,
        cluster.client_id,
        cluster.login,
        cluster.properties,
    )
