"""What operators declared on the clusters of a configuration, read from their ledgers and merged."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, TypeVar

from isthmus.config.declared import declared_link
from isthmus.config.declaredtree import declared_tree
from isthmus.config.treerules import apply_choices, taken_names, tree_links
from isthmus.errors import ConfigError, IsthmusError
from isthmus.ledger.documents.kinds import NamespaceDocument
from isthmus.memory.parted import PartedTopic
from isthmus.model.configuration import Configuration
from isthmus.model.link import Link
from isthmus.model.links.declaration import Declaration, End
from isthmus.model.namespace import Namespace
from isthmus.model.problem import Problem, cluster_error, problem_of
from isthmus.model.registers import Register, Registers, Statement, find_overruled
from isthmus.model.text.plain import Flat, Hidden, PlainValue, TextOrNull, computed_field, plain
from isthmus.model.text.wording import which_are
from isthmus.model.trees.reshaping import TreeShape, apply_shape
from isthmus.model.trees.switching import TargetChoice
from isthmus.model.trees.tree import Tree, TreeNode, TreeSettings
from isthmus.model.trees.treedeclaration import TreeDeclaration

_log = logging.getLogger(__name__)
DeclaredT = TypeVar("DeclaredT", Declaration, TreeDeclaration)
Overruled = Mapping[str, tuple[tuple[Statement, Register], ...]]
"""By cluster, the statements made there that do not hold, with those that hold instead."""


@dataclass(frozen=True, slots=True)
class Merged(Mapping[str, DeclaredT]):
    """Links, or trees, by name: `whole`, which are merged over all clusters and include deleted ones. `versions` is
    what each cluster knows of them, by alias and name.
    """

    whole: Mapping[str, DeclaredT] = field(default_factory=dict)
    versions: Mapping[tuple[str, str], Registers] = field(default_factory=dict)

    def __getitem__(self, name: str) -> DeclaredT:
        return self.whole[name]

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self.whole))

    def __len__(self) -> int:
        return len(self.whole)

    @property
    def living(self) -> tuple[DeclaredT, ...]:
        """Those that are not deleted, by name."""
        return tuple(each for each in self.values() if not each.is_deleted)

    def as_if(self, after: DeclaredT, aliases: Iterable[str] = ()) -> Merged[DeclaredT]:
        """Return what would be declared once the clusters with these aliases know this."""
        versions = {(alias, after.name): after.registers for alias in aliases}
        return Merged({**self.whole, after.name: after}, {**self.versions, **versions})


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """The declarations, as the clusters that answered know them.

    `ids` are those of the clusters that ever answered, by alias; `away` are those that do not answer now, with the
    reasons, and `unread` those whose ledgers were never read: they may hold declarations all the same. `namespaces` is
    what each cluster knows of its own, by alias. `choices` are the leaves chosen for distributors, by the source's
    alias and link, and `shapes` the trees as they were changed while they ran, by name.
    """

    ids: Mapping[str, str] = field(default_factory=dict)
    away: Mapping[str, Problem] = field(default_factory=dict)
    unread: frozenset[str] = frozenset()
    links: Merged[Declaration] = field(default_factory=Merged[Declaration])
    trees: Merged[TreeDeclaration] = field(default_factory=Merged[TreeDeclaration])
    namespaces: Mapping[str, Mapping[Namespace, NamespaceDocument]] = field(default_factory=dict)
    choices: Mapping[tuple[str, str], TargetChoice] = field(default_factory=dict)
    shapes: Mapping[str, TreeShape] = field(default_factory=dict)

    def alias_of(self, end: End) -> str | None:
        """Return the configured alias of a cluster; `None` where it is not configured, as far as that is known."""
        if (alias := next((alias for alias, found in self.ids.items() if found == end.cluster_id), None)) is not None:
            return alias
        return end.alias if end.alias in self.away else None

    def end(self, alias: str) -> End:
        """Return a cluster of the configuration as an end of a link that is to be declared.

        :raises ClusterError: It does not answer.
        """
        if alias in self.away:
            problem = self.away[alias]
            raise cluster_error(problem, f"{alias} has to answer for the handshake: {problem.message}", cluster=alias)
        return End(cluster_id=self.ids[alias], alias=alias)

    @property
    def unknown_on(self) -> dict[str, Problem]:
        """The clusters whose declarations are not known, with the reasons."""
        return {alias: why for alias, why in self.away.items() if alias in self.unread}

    def is_there(self, alias: str) -> bool:
        """Whether a cluster answers."""
        return alias in self.ids and alias not in self.away

    def tells_of(self, link: Link) -> bool:
        """Whether a ledger that was read holds a link, or the tree of a distributor, even a deleted one."""
        return link.tree in self.trees if link.tree else link.name in self.links

    def require_link(self, name: str, hint: str, *, deleted: bool = False, half_deleted: bool = False) -> Declaration:
        """Return the link of this name; with `deleted` it may be a deleted one, with `half_deleted` one whose deletion
        a cluster that answers does not know yet.

        :raises ConfigError: It was not declared; the `hint` says more.
        :raises ClusterError: No cluster answers.
        """
        found = self.links.get(name)
        if found is not None and (deleted or self._is_known(found, half_deleted=half_deleted)):
            return found
        raise self.unknown("link", [each.name for each in self.links.living], name, hint)

    def require_tree(self, name: str, hint: str, *, half_deleted: bool = False) -> TreeDeclaration:
        """Return the tree of this name; for `half_deleted` and the errors see `require_link`."""
        found = self.trees.get(name)
        if found is not None and self._is_known(found, half_deleted=half_deleted):
            return found
        raise self.unknown("tree", [each.name for each in self.trees.living], name, hint)

    def _is_known(self, found: Declaration | TreeDeclaration, *, half_deleted: bool) -> bool:
        return not found.is_deleted or (half_deleted and bool(self.behind(found)))

    def unknown(self, kind: str, names: Iterable[str], name: str, hint: str) -> IsthmusError:
        """Return the error that no `kind` of thing of this name is declared, while these `names` are; where no cluster
        answers, the error that this is unknown.
        """
        if self.away and not any(map(self.is_there, self.ids)):
            alias, problem = next(iter(self.away.items()))
            unheard = f"none of {', '.join(self.away)} answers" if len(self.away) > 1 else f"{alias} does not answer"
            message = f"it is unknown whether {kind} {name} is declared: {unheard}: {problem.message}"
            return cluster_error(problem, message, cluster=alias)
        away = f"; {', '.join(self.away)} did not answer" if self.away else ""
        return ConfigError(
            f"no {kind} {name} is declared on the clusters that answered{away}",
            hint=f"{which_are('declared', names)} {hint}",
        )

    def behind(self, declaration: Declaration | TreeDeclaration) -> tuple[str, ...]:
        """Return the clusters of a link or a tree that answered and do not know all statements about it."""
        versions = (self.trees if isinstance(declaration, TreeDeclaration) else self.links).versions
        return tuple(
            alias
            for alias in self.aliases(declaration)
            if self.is_there(alias) and versions.get((alias, declaration.name)) != declaration.registers
        )

    def away_of(self, declaration: Declaration | TreeDeclaration) -> dict[str, Problem]:
        """Return the clusters of a link or a tree that do not answer, with the reasons."""
        return {alias: self.away[alias] for alias in self.aliases(declaration) if alias in self.away}

    def find_overruled(self, declaration: Declaration | TreeDeclaration) -> Overruled:
        """Return, by cluster, the statements about a link or a tree made there that do not hold, with those that hold
        instead; by its id if it never answered.
        """
        aliases = {cluster_id: alias for alias, cluster_id in self.ids.items()}
        found: dict[str, tuple[tuple[Statement, Register], ...]] = {}
        for statement, holds in find_overruled(declaration.registers):
            alias = aliases.get(statement.where, statement.where)
            found[alias] = (*found.get(alias, ()), (statement, holds))
        return found

    def tell_overruled(self) -> None:
        """Warn, once, of every statement that does not hold: its author may be far away."""
        known: list[Declaration | TreeDeclaration] = [*self.links.values(), *self.trees.values()]
        for each in known:
            for alias, pairs in self.find_overruled(each).items():
                for statement, holds in pairs:
                    _warn_once(
                        f"{each.KIND} {each.name}: {statement.as_news}, at {alias}, which does not hold: "
                        f"{holds.as_news}, apart from it"
                    )

    def tell_returned(self) -> None:
        """Warn, once, of clusters that were removed from a tree as lost for good, and answer again."""
        for name, shape in self.shapes.items():
            for alias in shape.gone:
                if self.is_there(alias):
                    _warn_once(
                        f"{alias} answers again, which has left tree {name} by force: messages produced there are "
                        f"not copied, and no new ones come there. It comes back by isthmus tree add {name} {alias}, "
                        "once "
                        "its topics of the tree are deleted; messages that were never copied from it have to be read "
                        "there before"
                    )

    def aliases(self, declaration: Declaration | TreeDeclaration) -> tuple[str, ...]:
        """Return the clusters of a link that are configured, or those that a tree was declared with and has now."""
        if isinstance(declaration, TreeDeclaration):
            return tuple(dict.fromkeys((*declaration.members, *self.clusters_now(declaration).leaves())))
        ends = (self.alias_of(declaration.source), self.alias_of(declaration.target))
        return tuple(alias for alias in ends if alias is not None)

    def clusters_now(self, declaration: TreeDeclaration) -> TreeNode:
        """Return the clusters of a declared tree, as it was changed while it ran."""
        shape = self.shapes.get(declaration.name)
        return declaration.root if shape is None else shape.over(declaration.root)

    def over(self, configuration: Configuration) -> Configuration:
        """Return the configuration of the file with the declared links and trees added, and with distributors that copy
        to the leaves chosen for them. A link or a tree of the file wins over a declared one of its name.
        """
        configuration = configuration.written
        trees = self._trees(configuration)
        configuration = self._apply_shapes_and_choices(replace(configuration, trees=(*configuration.trees, *trees)))
        named = {link.name for link in configuration.links}
        for each in self.links.living:
            if each.name in named:
                _warn_once(f"link {each.name} of the file is run in place of the declared one of that name")
        own = [each for each in self.links.living if each.name not in named]
        links = [link for each in own if (link := self.link(each, configuration))]
        return replace(
            configuration,
            links=(*configuration.links, *links),
            declared=frozenset(link.name for link in links),
            left_out=self._left_out(own),
            declared_trees=frozenset(each.tree.name for each in trees),
            unread={alias: why for alias, why in self.away.items() if alias in self.unread},
        )

    def _left_out(self, declarations: Iterable[Declaration]) -> dict[str, Problem]:
        """Return why links cannot be run between clusters of the configuration, by name. Warn where the alias of an end
        is another cluster here: a link declared on one cluster is not run between others.
        """
        found = {each.name: why for each in declarations if (why := self.missing_end(each)) is not None}
        for name, why in found.items():
            if any(self.is_another(end) for end in (self.links[name].source, self.links[name].target)):
                _warn_once(f"link {name} is not run: {why.in_full}")
        return found

    def is_another(self, end: End) -> bool:
        """Whether the configuration uses the alias that an end had at the declaration for another cluster."""
        return self.alias_of(end) is None and end.alias in self.ids

    def missing_end(self, declaration: Declaration) -> Problem | None:
        """Return why a link has no cluster of the configuration at one of its ends, or `None`."""
        for side, end in (("source", declaration.source), ("target", declaration.target)):
            if self.is_another(end):
                return Problem(
                    f"its {side} is cluster {end.cluster_id} ({end.alias}), and {end.alias} of the configuration is "
                    f"cluster {self.ids[end.alias]}",
                    "Correct its bootstrap_servers. If the cluster was created again, the link has ended with the old "
                    f"one: isthmus link delete {declaration.name}, and create it again.",
                )
            if self.alias_of(end) is None:
                return Problem(
                    f"its {side}, cluster {end.cluster_id} ({end.alias}), is not in the configuration",
                    "Only a process whose file has both clusters can run it.",
                )
        return None

    def _trees(self, configuration: Configuration) -> tuple[TreeSettings, ...]:
        """Return the declared trees that can be run beside those of the file."""
        found = []
        for each in self.trees.living:
            if any(settings.tree.name == each.name for settings in configuration.trees):
                _warn_once(f"tree {each.name} of the file is run in place of the declared one of that name")
                continue
            try:
                found.append(self.tree(each, configuration))
            except ConfigError as error:
                _warn_once(problem_of(error).in_full)
        return tuple(found)

    def tree(self, declaration: TreeDeclaration, configuration: Configuration) -> TreeSettings:
        """Return a declared tree of clusters of the configuration, as it was declared.

        :raises ConfigError: The configuration lacks one of them or calls it otherwise, or the tree cannot be used.
        """
        aliases = {cluster.alias for cluster in configuration.clusters}
        for alias in self.clusters_now(declaration).leaves():
            self._check_member(declaration, alias, aliases)
        settings = declared_tree(declaration, declaration.root.leaves())
        for mistake in taken_names((settings,), tuple(link for link in configuration.links if not link.tree)):
            raise ConfigError(f"tree {declaration.name}: a link of the file {mistake.message}", hint=mistake.hint)
        return settings

    def _check_member(self, declaration: TreeDeclaration, alias: str, aliases: Collection[str]) -> None:
        """Require that a cluster of a declared tree has the same name here: distributors are named by it.

        :raises ConfigError: It has not.
        """
        cluster_id = declaration.members.get(alias, self.ids.get(alias, ""))
        here = [known for known, found in self.ids.items() if found == cluster_id]
        is_another = self.ids.get(alias, cluster_id) != cluster_id or bool(here and alias not in here)
        if alias not in aliases or is_another:
            found = f"this file calls {here[0]}" if here else "this file has not"
            raise ConfigError(
                f"tree {declaration.name} has cluster {alias} ({cluster_id or 'unknown'}), which {found}",
                hint=f"Write that cluster into the file as {alias}: distributors have the names of clusters.",
            )

    def _apply_shapes_and_choices(self, configuration: Configuration) -> Configuration:
        """Return the configuration with trees as changed while they ran, and with the leaves that were chosen."""
        if not configuration.trees:
            return configuration
        trees = tuple(self._tree(settings, configuration) for settings in configuration.trees)
        known = self.find_chosen(settings.tree for settings in trees)
        others = (link for link in configuration.links if not link.tree)
        links = (*others, *tree_links(trees, configuration.clusters, known))
        return replace(configuration, trees=tuple(apply_choices(each, known) for each in trees), links=links)

    def _tree(self, settings: TreeSettings, configuration: Configuration) -> TreeSettings:
        shape = self.shapes.get(settings.tree.name)
        if shape is None:
            return settings
        found, why_not = apply_shape(settings, shape, {cluster.alias for cluster in configuration.clusters})
        if why_not:
            _warn_once(why_not)
        return found

    def find_chosen(self, trees: Iterable[Tree]) -> dict[str, TargetChoice]:
        """Return the leaves that were chosen for the distributors of trees, by the clusters that they read."""
        each = [one for tree in trees for one in tree.distributors]
        return {
            one.name: self.choices[one.cluster, one.name] for one in each if (one.cluster, one.name) in self.choices
        }

    def link(self, declaration: Declaration, configuration: Configuration) -> Link | None:
        """Return a declared link between configured clusters; `None` where one is missing, or it cannot be used."""
        clusters = {cluster.alias: cluster for cluster in configuration.clusters}
        source = clusters.get(self.alias_of(declaration.source) or "")
        target = clusters.get(self.alias_of(declaration.target) or "")
        if source is None or target is None:
            return None
        source = replace(source, cluster_id=declaration.source.cluster_id)
        target = replace(target, cluster_id=declaration.target.cluster_id)
        try:
            return declared_link(declaration, source, target)
        except ConfigError as error:
            # Another release or another program wrote it.
            _warn_once(problem_of(error).in_full)
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class OverruledStatement:
    """A statement made at a cluster, and the one that holds in place of it."""

    SCHEMA: ClassVar = "Overruled"

    cluster: str
    said: Statement
    holds: Statement


def _list_overruled(overruled: Overruled) -> list[OverruledStatement]:
    return [
        OverruledStatement(cluster=alias, said=said, holds=holds)
        for alias, pairs in overruled.items()
        for said, holds in pairs
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class _AsDeclared(PlainValue):
    """How something declared stands now.

    `written_by_file` says that the file has one of that name, which wins. `behind` are the clusters that do not know
    all of it yet, `away` those that did not answer, and `unusable` is why no process that has this configuration runs
    it. `overruled` has, by cluster, the statements made there that do not hold any more.
    """

    written_by_file: bool = False
    behind: tuple[str, ...] = ()
    away: Mapping[str, Problem] = field(default_factory=dict)
    unusable: Problem | None = None
    overruled: Annotated[Overruled, _list_overruled] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredLink(_AsDeclared):
    """A declared link as it stands now.

    `parted` are its topics that continue with mapped offsets since both sides diverged, `None` where its target was not
    asked or did not answer. `given_up` names what was given up where a synchronous link has just become asynchronous.
    """

    declaration: Hidden[Declaration]
    parted: tuple[PartedTopic, ...] | None = None
    given_up: TextOrNull = ""

    @computed_field(before="written_by_file")
    def declared(self) -> Flat[Declaration]:
        """What was declared."""
        return self.declaration

    @computed_field(before="overruled")
    def said(self) -> tuple[Statement, ...]:
        """All statements in force."""
        return self.declaration.registers


def _write_tree(clusters: TreeNode) -> Any:
    return plain(clusters)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredTree(_AsDeclared):
    """A declared tree as it stands now, with its settings in the form of the file beside these.

    Its clusters are those that it has by now.
    """

    declaration: Hidden[TreeDeclaration]
    clusters: Annotated[TreeNode, _write_tree]

    @computed_field(before="written_by_file")
    def declared(self) -> Flat[TreeDeclaration]:
        """What was declared."""
        return self.declaration

    @computed_field(before="overruled")
    def said(self) -> tuple[Statement, ...]:
        """All statements in force."""
        return self.declaration.registers


_warned: set[str] = set()


def _warn_once(warning: str) -> None:
    """Warn once: declarations are read every few seconds."""
    if warning not in _warned:
        _warned.add(warning)
        _log.warning("%s", warning)
