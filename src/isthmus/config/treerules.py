"""The rules for distribution trees, and the values of their sections."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import combinations
from types import MappingProxyType
from typing import Final

from isthmus.config.reading.document import Path
from isthmus.config.reading.problems import Mistake
from isthmus.config.sections.trees import TreeSection
from isthmus.config.taking import take
from isthmus.errors import ConfigError
from isthmus.model.cluster import CLIENT_ID, Cluster
from isthmus.model.copyflags import FlagsHeader
from isthmus.model.groupsettings import GroupPattern, GroupSettings
from isthmus.model.link import DistributorRole, Link
from isthmus.model.naming import RESERVED_PREFIX, SCHEMAS_TOPIC, SourceTopic, is_reserved
from isthmus.model.offsets import EARLIEST, OffsetPolicy
from isthmus.model.selection import TopicPattern, TopicSettings
from isthmus.model.trees.switching import GoingOver, Onward, TargetChoice
from isthmus.model.trees.tree import Distributor, Tree, TreeSettings, node_of

NO_CHOICES: Final[Mapping[str, TargetChoice]] = MappingProxyType({})


def tree_rules(trees: tuple[TreeSection, ...], aliases: frozenset[str] | None) -> Iterator[Mistake]:
    """Yield mistakes in each tree by itself, and in two of one name. `aliases` of clusters may be unknown."""
    seen: dict[str, int] = {}
    owners: dict[str, str] = {}
    for position, section in enumerate(trees):
        path: Path = ("trees", position)
        if section.name in seen:
            yield Mistake(
                (*path, "name"),
                f"is {section.name}, which is the name of trees[{seen[section.name]}] already",
                "Give every tree a name of its own.",
            )
        seen.setdefault(section.name, position)
        yield from reserved_topics((*path, "topics"), section.topics)
        try:
            tree = _tree(section)
        except ConfigError as error:
            yield Mistake((*path, "clusters"), error.message, error.hint)
            continue
        # Names may contain dots, so that two trees of different names can have distributors of one name.
        taken = next(
            (each.name for each in tree.distributors if owners.setdefault(each.name, tree.name) != tree.name), ""
        )
        if taken:
            yield Mistake(
                (*path, "name"),
                f"gives the name {taken} to a distributor, as tree {owners[taken]} does",
                "Give the tree another name.",
            )
        for alias in tree.clusters:
            if aliases is not None and alias not in aliases:
                yield Mistake(
                    (*path, "clusters"),
                    f"has {alias}, which is not the alias of a cluster",
                    f"The clusters are: {', '.join(sorted(aliases))}.",
                )


def reserved_topics(path: Path, patterns: tuple[str, ...]) -> Iterator[Mistake]:
    """Yield mistakes about patterns that select nothing, as they name reserved topics."""
    for position, pattern in enumerate(patterns):
        if is_reserved(pattern):
            yield Mistake(
                (*path, position),
                f"cannot match: names starting with {RESERVED_PREFIX} are never copied, nor is {SCHEMAS_TOPIC}",
                "They belong to Kafka, to Isthmus or to a schema registry (docs/schemas.md); remove the pattern.",
            )


def tree_conflicts(trees: tuple[TreeSettings, ...], links: tuple[Link, ...]) -> Iterator[Mistake]:
    """Yield topics that two trees, or a tree and a mirror, would write on one cluster, as far as names show."""
    for (_, former), (position, latter) in combinations(enumerate(trees), 2):
        shared = {*former.tree.clusters} & {*latter.tree.clusters}
        if shared and any(_meet(one, other) for one in former.topics for other in latter.topics):
            yield Mistake(
                ("trees", position, "topics"),
                f"overlap those of tree {former.tree.name} on {', '.join(sorted(shared))}",
                "A topic belongs to one tree: name other topics, or exclude some.",
            )
    for position, link in enumerate(links):
        for settings in trees:
            if link.target.alias not in settings.tree.clusters:
                continue
            written = sorted(link.topics.name_topics(_literals(link, settings)).sources)
            taken = [name for name in written if settings.distributes(name)]
            if taken:
                yield Mistake(
                    ("links", position, "topics"),
                    f"mirrors into {taken[0]} of {link.target.alias}, which tree {settings.tree.name} distributes",
                    "A mirror has one writer: exclude the topic here or there.",
                )


def trees_of(sections: tuple[TreeSection, ...]) -> tuple[TreeSettings, ...]:
    """Return the values of checked sections."""
    return tuple(
        take(
            TreeSettings,
            section,
            tree=_tree(section),
            topics=tuple(map(TopicPattern.parse, section.topics)),
            exclude=tuple(map(TopicPattern.parse, section.exclude)),
            groups=tuple(map(GroupPattern.parse, section.groups)),
        )
        for section in sections
    )


def apply_choices(settings: TreeSettings, choices: Mapping[str, TargetChoice]) -> TreeSettings:
    """Return the tree with the chosen leaves, by distributor; choices for other subtrees do not count."""
    by_itself = settings.tree.by_itself
    targets = {
        (each.cluster, each.level, each.leaves): choice.target
        for each in by_itself.distributors
        if (choice := choices.get(each.name)) is not None and _is_of(choice, each)
    }
    return replace(settings, tree=replace(by_itself, switched=targets))


def _is_of(choice: TargetChoice | None, each: Distributor) -> bool:
    return choice is not None and choice.is_of(each.leaves)


def tree_links(
    trees: tuple[TreeSettings, ...],
    clusters: tuple[Cluster, ...],
    choices: Mapping[str, TargetChoice] = NO_CHOICES,
) -> Iterator[Link]:
    """Return a link for each distributor of each tree, from the lowest level of the first cluster on; `choices` are the
    chosen leaves, of trees that have them.
    """
    by_alias = {cluster.alias: cluster for cluster in clusters}
    for settings in (apply_choices(each, choices) for each in trees):
        beside = settings.tree.distributors
        valid = {each.name: choices[each.name] for each in beside if _is_of(choices.get(each.name), each)}
        got = {each.name: {each.target, *(valid[each.name].former if each.name in valid else ())} for each in beside}
        for each in beside:
            client_id = f"{CLIENT_ID}-{each.name}"
            others = tuple(
                (by_alias[leaf], frozenset(d.name for d in beside if d.cluster == each.cluster and leaf in got[d.name]))
                for leaf in settings.tree.clusters
                if leaf != each.cluster
            )
            choice = valid.get(each.name)
            finishing = None if choice is None else choice.finishing
            target = each.target if finishing is None else finishing.leaf
            yield take(
                Link,
                settings,
                name=each.name,
                source=replace(by_alias[each.cluster], client_id=client_id),
                target=replace(by_alias[target], client_id=client_id),
                topics=TopicSettings(
                    include=settings.topics, exclude=settings.exclude, offsets=OffsetPolicy.MAPPED, start=EARLIEST
                ),
                groups=GroupSettings(include=settings.groups, way="timestamp", margin_s=settings.margin_s),
                distributor=take(
                    DistributorRole,
                    settings,
                    tree=settings.tree.name,
                    level=each.level,
                    flags=settings.tree.header if settings.flags == "header" else None,
                    others=others,
                    inbound=tuple((d.name, d.level) for d in beside if each.cluster in d.leaves),
                    leaves=each.leaves,
                    begins=() if choice is None else (finishing or choice).begins,
                    epochs=() if choice is None else (finishing or choice).epochs,
                    going=_going(settings.tree, each, choice, by_alias),
                    ends=None if finishing is None else finishing.ends,
                    doubts=() if choice is None else choice.doubts,
                    former=() if choice is None else choice.former,
                ),
            )


def _going(
    tree: Tree, each: Distributor, choice: TargetChoice | None, clusters: Mapping[str, Cluster]
) -> GoingOver | None:
    if choice is None or not choice.is_under_way or choice.finishes:
        return None
    onward = tree.onward(each.target, each.level)
    return GoingOver(
        to=choice.wanted,
        serial=choice.serial,
        onward=tuple(Onward(one.name, clusters[one.cluster], clusters[one.target]) for one in onward),
    )


def taken_names(trees: tuple[TreeSettings, ...], links: tuple[Link, ...]) -> Iterator[Mistake]:
    """Yield links of the file that have the name of a distributor."""
    names = {each.name: settings.tree.name for settings in trees for each in settings.tree.distributors}
    for position, link in enumerate(links):
        if link.name in names:
            yield Mistake(
                ("links", position, "name"),
                f"is {link.name}, which is the name of a distributor of tree {names[link.name]}",
                "Give the link another name.",
            )


def _tree(section: TreeSection) -> Tree:
    header = take(FlagsHeader, section.header)
    return Tree(name=section.name, root=node_of(section.clusters), header=header)


def _literals(link: Link, settings: TreeSettings) -> set[SourceTopic]:
    return {*link.topics.literals, *(SourceTopic(one.value) for one in settings.topics if one.kind == "literal")}


def _meet(one: TopicPattern, other: TopicPattern) -> bool:
    """Return whether a name certainly fits both: for regular expressions that is unknown."""
    if "regex" in (one.kind, other.kind):
        return False
    literal, rest = (one, other) if one.kind == "literal" else (other, one)
    if literal.kind == "literal":
        return rest.matches(literal.value)
    return one.value.startswith(other.value) or other.value.startswith(one.value)
