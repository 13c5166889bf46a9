"""The verbs for declared trees: create, update, delete."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import replace
from typing import Any

from isthmus.config.declared import check_unset
from isthmus.config.declaredtree import check_tree_keys
from isthmus.config.sections.trees import TreeSection
from isthmus.config.treerules import taken_names, tree_conflicts, tree_links
from isthmus.doctor.handshake import handshake
from isthmus.errors import ClusterError, ConfigError, PlanRefused
from isthmus.kafka.session import ClientSession
from isthmus.memory.declarations import Declarations, author, read_declarations
from isthmus.memory.declared import Declared, DeclaredTree
from isthmus.model.configuration import Configuration
from isthmus.model.problem import Problem, cluster_error, problem_of
from isthmus.model.registers import DELETED, as_registers, change_registers
from isthmus.model.text.plain import plain
from isthmus.model.trees.reshaping import text_of
from isthmus.model.trees.tree import TreeNode, node_of
from isthmus.model.trees.treedeclaration import CLUSTERS, MEMBERS, TreeDeclaration, flat_settings
from isthmus.trees.reshaping import require_clusters


class AsyncDeclaredTrees:
    """The trees that operators declared on the clusters of a configuration: `fabric.declared_trees`.

    Changes are written to all clusters of the tree. A cluster that is away gets them when it is back, from the next
    change or from the process that runs the tree. With `dry_run` nothing is written.
    """

    def __init__(self, configuration: Configuration, session: ClientSession) -> None:
        self._configuration = configuration
        self._session = session

    async def all(self, *, deleted: bool = False) -> tuple[DeclaredTree, ...]:
        """Return every declared tree, by name; deleted ones only with `deleted`.

        :raises PlanRefused: A newer Isthmus wrote a ledger.
        """
        return (await self.read_with_problems(deleted=deleted))[0]

    async def read_with_problems(
        self, *, deleted: bool = False
    ) -> tuple[tuple[DeclaredTree, ...], Mapping[str, Problem]]:
        """Return the same, and by alias why the declarations on clusters could not be read.

        :raises PlanRefused: A newer Isthmus wrote a ledger.
        """
        _, declared = await read_declarations(self._configuration, self._session)
        trees = tuple(declared.trees.values()) if deleted else declared.trees.living
        return tuple(self._standing(declared, each) for each in trees), declared.unknown_on

    async def describe(self, name: str, *, half_deleted: bool = False) -> DeclaredTree:
        """Return the tree of that name. With `half_deleted` it may be one whose deletion a cluster does not know yet,
        so that it can be deleted again.

        :raises ConfigError: It was not declared.
        """
        _, declared = await read_declarations(self._configuration, self._session)
        return self._standing(declared, _require_declared(declared, name, half_deleted=half_deleted))

    async def create(
        self,
        name: str,
        clusters: Any,
        settings: Mapping[str, Any] | None = None,
        *,
        cluster_ids: Mapping[str, str] | None = None,
        validate: bool = True,
        dry_run: bool = False,
    ) -> DeclaredTree:
        """Declare a tree of `clusters`, nested lists of aliases as in the file, with settings of `trees[]`. With
        `validate` all of them are examined first, as `isthmus doctor` does; they have to be those with these
        `cluster_ids`, by alias, where they are given.

        :raises ConfigError: The clusters are no tree, or a setting cannot be used.
        :raises PlanRefused: There is such a tree, another one or a mirror has its topics, a cluster is another one or
            twice in it, or one is not ready for it.
        :raises ClusterError: One of the clusters does not answer; a repeated call continues where this one ended.
        """
        if any(each.tree.name == name for each in self._configuration.trees):
            raise PlanRefused(
                f"the configuration file has a tree {name}, which would win over a declared one",
                hint="Choose another name, or take the tree out of the file first.",
            )
        root, wanted = node_of(clusters), flat_settings(settings or {})
        check_tree_keys(wanted)
        for alias in root.leaves():
            self._configuration.cluster(alias)
        declarations, declared = await read_declarations(self._configuration, self._session)
        require_clusters(declared, root.leaves())
        _check_ids(declared, root, cluster_ids or {})
        known = declared.trees.get(name, TreeDeclaration(name=name, registers=()))
        members = {alias: declared.ids[alias] for alias in root.leaves()}
        values = {CLUSTERS: plain(root), MEMBERS: members, DELETED: False, **as_registers(wanted)}
        _check_new(declared, known, root, values)
        # Settings from before its deletion are not set again.
        values |= dict.fromkeys(as_registers(known.settings).keys() - values.keys())
        after = self._after(declared, known, values)
        if validate:
            settled = declared.tree(after, self._configuration)
            links = tuple(tree_links((settled,), self._configuration.clusters))
            chosen = tuple(map(self._configuration.cluster, root.leaves()))
            examined = replace(self._configuration, clusters=chosen, links=links, trees=(settled,), warnings=())
            await handshake(examined, f"tree {name}")
        return await self._write(declarations, declared, known, after, dry_run=dry_run)

    async def update(self, name: str, settings: Mapping[str, Any], *, dry_run: bool = False) -> DeclaredTree:
        """Change settings, by dotted key; `None` resets one to its default. The process that runs the tree follows.

        :raises ConfigError: There is no such tree, or a setting cannot be used.
        :raises PlanRefused: Another tree or a mirror has its topics, or the same was changed meanwhile.
        :raises ClusterError: None of its clusters could be written to.
        """
        wanted = flat_settings(settings)
        check_tree_keys(wanted)
        unset = {key for key, value in wanted.items() if value is None}
        return await self._change(name, as_registers(wanted), unset=unset, dry_run=dry_run)

    async def delete(self, name: str, *, dry_run: bool = False) -> DeclaredTree:
        """Delete the tree: its distributors end. Topics stay as they are. A deletion that one of its clusters does not
        know yet can be repeated.

        :raises ConfigError: There is no such tree.
        :raises PlanRefused: The same was changed meanwhile.
        :raises ClusterError: None of its clusters could be written to.
        """
        return await self._change(name, {DELETED: True}, is_repeatable=True, dry_run=dry_run)

    def _standing(self, declared: Declared, declaration: TreeDeclaration) -> DeclaredTree:
        return DeclaredTree(
            declaration=declaration,
            clusters=declared.clusters_now(declaration),
            written_by_file=any(each.tree.name == declaration.name for each in self._configuration.trees),
            behind=declared.behind(declaration),
            away=declared.away_of(declaration),
            unusable=self._unusable(declared, declaration),
            overruled=declared.find_overruled(declaration),
        )

    def _unusable(self, declared: Declared, declaration: TreeDeclaration) -> Problem | None:
        try:
            if not declaration.is_deleted:
                declared.tree(declaration, self._configuration)
        except ConfigError as error:
            return problem_of(error)
        return None

    async def _change(
        self,
        name: str,
        values: Mapping[str, Any],
        *,
        unset: Set[str] = frozenset(),
        is_repeatable: bool = False,
        dry_run: bool,
    ) -> DeclaredTree:
        declarations, declared = await read_declarations(self._configuration, self._session)
        known = _require_declared(declared, name, half_deleted=is_repeatable)
        check_unset(sorted(unset - known.settings.keys()), TreeSection)
        after = self._after(declared, known, values)
        return await self._write(declarations, declared, known, after, dry_run=dry_run)

    def _after(self, declared: Declared, known: TreeDeclaration, values: Mapping[str, Any]) -> TreeDeclaration:
        """Return the tree with these values. A deleted tree need not be usable.

        :raises ConfigError: A setting cannot be used.
        :raises PlanRefused: Another tree or a mirror has its topics, or another tree distributors of the same names.
        :raises ClusterError: None of its clusters answers.
        """
        aliases = _there(declared, known) if known.is_whole else tuple(values[MEMBERS])
        after = known.join(change_registers(known.registers, values, author(declared.ids[aliases[0]])))
        if after.is_deleted:
            return after
        settings = declared.tree(after, self._configuration)
        others = declared.over(self._configuration)
        mirrors = tuple(link for link in others.links if not link.tree)
        for other in (each for each in others.trees if each.tree.name != known.name):
            for mistake in tree_conflicts((other, settings), ()):
                raise PlanRefused(f"topics of tree {known.name} {mistake.message}", hint=mistake.hint)
            # Names may hold dots, so that two trees with other names can have distributors of one name.
            for name in sorted(other.tree.names & settings.tree.names):
                raise PlanRefused(
                    f"tree {known.name} gives the name {name} to a distributor, as tree {other.tree.name} does",
                    hint="Give the tree another name.",
                )
        for mistake in (*tree_conflicts((settings,), mirrors), *taken_names((settings,), mirrors)):
            link = mirrors[int(mistake.path[1])].name
            raise PlanRefused(f"tree {known.name}: link {link} {mistake.message}", hint=mistake.hint)
        return after

    async def _write(
        self,
        declarations: Declarations,
        declared: Declared,
        known: TreeDeclaration,
        after: TreeDeclaration,
        *,
        dry_run: bool,
    ) -> DeclaredTree:
        aliases = _there(declared, after)
        if dry_run:
            return self._standing(replace(declared, trees=declared.trees.as_if(after, aliases)), after)
        new = tuple(register for register in after.registers if register not in known.registers)
        for alias in aliases:
            await declarations.write(alias, known, new)
        declared = await declarations.look()
        return self._standing(declared, declared.trees[after.name])


def _there(declared: Declared, declaration: TreeDeclaration) -> tuple[str, ...]:
    """Return the clusters of a tree that answer.

    :raises ClusterError: No cluster answers.
    """
    aliases = declared.aliases(declaration)
    found = tuple(alias for alias in aliases if declared.is_there(alias))
    if not found:
        if away := [alias for alias in aliases if alias in declared.away]:
            problem = declared.away[away[0]]
            message = f"no cluster of tree {declaration.name} answers: {problem.message}"
            raise cluster_error(problem, message, cluster=away[0])
        raise ClusterError(
            f"no cluster of tree {declaration.name} answers", hint="Use a file that has the tree's clusters."
        )
    return found


def _require_declared(declared: Declared, name: str, *, half_deleted: bool = False) -> TreeDeclaration:
    return declared.require_tree(name, "Trees of the file are changed there.", half_deleted=half_deleted)


def _check_ids(declared: Declared, root: TreeNode, cluster_ids: Mapping[str, str]) -> None:
    for alias in root.leaves():
        if cluster_ids.get(alias, declared.ids[alias]) != declared.ids[alias]:
            raise PlanRefused(
                f"{alias} is cluster {declared.ids[alias]} here, and {cluster_ids[alias]} in the file of the tree",
                hint="Correct the alias, or leave cluster_ids out to declare the tree on the clusters that there are.",
            )


def _check_new(declared: Declared, known: TreeDeclaration, root: TreeNode, values: Mapping[str, Any]) -> None:
    """Require that a tree to be created is new, was begun with the same values, or was there with the same clusters."""
    if known.is_whole and not known.is_deleted:
        declared_before = {one.name: one.decoded for one in known.registers if one.decoded is not None}
        if declared_before != values:
            raise PlanRefused(
                f"tree {known.name} is declared already, and otherwise",
                hint=f"isthmus tree describe {known.name} shows it; isthmus tree update changes its settings, and "
                "isthmus tree add, remove and move its clusters.",
            )
        return
    shape = declared.shapes.get(known.name)
    before = shape.root if shape is not None else known.root if known.is_whole else root
    if text_of(before) != text_of(root):
        raise PlanRefused(
            f"there was a tree {known.name} before, of {text_of(before)}, and levels keep their meaning",
            hint="Declare it with these clusters, and change them by isthmus tree add, remove and move; or choose "
            "another name for other topics.",
        )
