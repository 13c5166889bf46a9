"""The verbs for declared links (KIP-986): create, update, attach, delete; `promotion` has those that end following."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from isthmus.access.enforcement import Keeping, made_against_readers
from isthmus.access.readers import settle_reading
from isthmus.config.declared import check_settings, check_unset, declared_link
from isthmus.doctor.handshake import handshake, semantics_of
from isthmus.errors import ClusterError, ConfigError, PlanRefused
from isthmus.kafka.session import ClientSession
from isthmus.links.closing import check_closable, check_left_in, choose_keepers, close
from isthmus.links.modes import ModeChange, check_attachable, mode_among
from isthmus.memory.attaching import (
    away,
    check_ids,
    check_maps,
    check_new,
    check_new_mode,
    check_prefix,
    write_checked,
)
from isthmus.memory.declarations import Declarations, author, read_declarations
from isthmus.memory.declared import Declared, DeclaredLink
from isthmus.memory.links import read_ledger
from isthmus.memory.parted import parted_now
from isthmus.model.cluster import Cluster
from isthmus.model.configuration import Configuration
from isthmus.model.links.declaration import (
    ASYNC,
    SEMANTICS,
    SOURCE,
    TARGET,
    TARGET_LOGIN,
    Declaration,
    End,
    attachment,
    deletion,
)
from isthmus.model.namespace import NamespaceMap
from isthmus.model.problem import Problem, problem_of
from isthmus.model.registers import DELETED, MODE, as_registers, change_registers


class _New(NamedTuple):
    """A link that is to be declared."""

    name: str
    source: str
    target: str
    maps: tuple[NamespaceMap, ...]
    mode: str
    settings: dict[str, Any]


class AsyncDeclaredLinks:
    """The links that operators declared on the clusters of a configuration: `fabric.declarations`.

    Changes are written to both clusters of the link. A cluster that is away gets them when it is back, from the next
    change or from the process that runs the link. With `dry_run` nothing is written.
    """

    def __init__(self, configuration: Configuration, session: ClientSession) -> None:
        self._configuration = configuration
        self._session = session

    async def all(self, *, deleted: bool = False) -> tuple[DeclaredLink, ...]:
        """Return every declared link, by name; deleted ones only with `deleted`.

        :raises PlanRefused: A newer Isthmus wrote a ledger.
        """
        return (await self.read_with_problems(deleted=deleted))[0]

    async def read_with_problems(
        self, *, deleted: bool = False
    ) -> tuple[tuple[DeclaredLink, ...], Mapping[str, Problem]]:
        """Return the same, and by alias why the declarations on clusters could not be read.

        :raises PlanRefused: A newer Isthmus wrote a ledger.
        """
        _, declared = await read_declarations(self._configuration, self._session)
        links = tuple(declared.links.values()) if deleted else declared.links.living
        return tuple(self._standing(declared, each) for each in links), declared.unknown_on

    async def describe(self, name: str, *, half_deleted: bool = False) -> DeclaredLink:
        """Return the link of that name, with the topics in its target's ledger that continue with mapped offsets. With
        `half_deleted` it may be one whose deletion a cluster does not know yet, so that it can be deleted again.

        :raises ConfigError: It was not declared.
        """
        declarations, declared = await read_declarations(self._configuration, self._session)
        known = _require_declared(declared, name, half_deleted=half_deleted)
        parted, alias = None, declared.alias_of(known.target)
        if alias is not None and declared.is_there(alias):
            with contextlib.suppress(ClusterError):
                memory = await read_ledger(declarations.client(alias))
                parted = parted_now(name, memory.of(name).documents)
        return replace(self._standing(declared, known), parted=parted)

    async def create(
        self,
        name: str,
        *,
        source: str,
        target: str,
        maps: Collection[NamespaceMap],
        mode: str = ASYNC,
        settings: Mapping[str, Any] | None = None,
        cluster_ids: Mapping[str, str] | None = None,
        validate: bool = True,
        enforce: Keeping | None = None,
        dry_run: bool = False,
    ) -> DeclaredLink:
        """Declare a link. With `validate` both clusters are examined first, as `isthmus doctor` does; they have to be
        those with these `cluster_ids`, by alias, where they are given. With `enforce` access rules keep all others out
        of what follows.

        :raises ConfigError: A name or a setting cannot be used.
        :raises PlanRefused: There is such a link, a namespace follows another one already, a cluster is another one, or
            the handshake failed, or rules cannot close what is to follow.
        :raises ClusterError: One of the clusters does not answer; a repeated call continues where this one ended.
        """
        asked, settings = mode_among(settings, None)
        wanted = dict(settings or {})
        new = _New(name=name, source=source, target=target, maps=tuple(maps), mode=asked or mode, settings=wanted)
        found = await self._create(new, cluster_ids or {}, validate=validate, enforce=enforce, dry_run=dry_run)
        if enforce is not None and not dry_run:
            cluster = self._configuration.cluster(target)
            keep = choose_keepers(found.declaration, cluster, enforce)
            await close(cluster, self._session, new.maps, keep, self._configuration.ledger)
        return found

    async def update(
        self,
        name: str,
        *,
        settings: Mapping[str, Any] | None = None,
        mode: str | None = None,
        accept_semantics: bool = False,
        dry_run: bool = False,
    ) -> DeclaredLink:
        """Change settings, by dotted key; `None` resets one to its default. `mode` may be among them. With
        `accept_semantics` the link goes by what both clusters can keep now, though it be less than it was.

        :raises ConfigError: There is no such link, or a setting cannot be used.
        :raises PlanRefused: The link cannot be synchronous as it stands, the same was changed meanwhile, or access
            rules would keep the link out under its new login.
        :raises ClusterError: None of its clusters could be written to, or one that a synchronous link needs.
        """
        mode, settings = mode_among(settings, mode)
        check_settings(settings or {})
        if settings is not None and TARGET_LOGIN in settings:
            await self._check_left_in(name, settings[TARGET_LOGIN] or "")
        values, given_up = as_registers(settings or {}), ""
        change = None if mode is None else ModeChange(self._configuration, self._session, name, mode)
        if change is not None:
            given_up = await change.check()
            values[MODE] = change.mode
        if accept_semantics:
            values |= await self._semantics(name)

        def values_for(known: Declaration) -> dict[str, Any]:
            check_unset(key for key, value in (settings or {}).items() if value is None and key not in known.settings)
            if change is not None:
                change.require_as_checked(known)
            return values

        return replace(await self.change(name, values_for, dry_run=dry_run), given_up=given_up)

    async def attach(
        self, name: str, maps: Collection[NamespaceMap], *, enforce: Keeping | None = None, dry_run: bool = False
    ) -> DeclaredLink:
        """Let namespaces of the target follow those of the source; they become reserved, and with `enforce` access
        rules keep all others out of them.

        :raises ConfigError: There is no such link.
        :raises PlanRefused: They overlap with others that follow, the same was changed meanwhile, rules cannot
            close them, or the link is synchronous.
        :raises ClusterError: None of its clusters could be written to, or with `enforce` the target could not.
        """
        declarations, declared = await read_declarations(self._configuration, self._session)
        known = _require_declared(declared, name)
        check_attachable(known)
        source = declared.alias_of(known.source)
        if source is not None and declared.is_there(source):
            for each in maps:
                await check_prefix(declarations.client(source), each.source)
        closing = await self._closing(declarations, declared, known, maps, enforce)
        return await self._attach(name, maps, closing, dry_run=dry_run)

    async def reattach(
        self, name: str, maps: Collection[NamespaceMap] = (), *, enforce: Keeping | None = None, dry_run: bool = False
    ) -> DeclaredLink:
        """Attach detached namespaces again, all of them where none is named; with `enforce` as `attach`.

        :raises ConfigError: There is no such link, or one of them was never attached.
        :raises PlanRefused: As of `attach`.
        :raises ClusterError: As of `attach`.
        """
        declarations, declared = await read_declarations(self._configuration, self._session)
        known = _require_declared(declared, name)
        check_attachable(known)
        for each in maps:
            if each not in known.detached:
                raise ConfigError(f"link {name} never detached {each}", hint="Use isthmus link attach.")
        maps = maps or known.detached
        closing = await self._closing(declarations, declared, known, maps, enforce)
        return await self._attach(name, maps, closing, dry_run=dry_run)

    async def _attach(
        self, name: str, maps: Collection[NamespaceMap], closing: Callable[[], Awaitable[None]] | None, *, dry_run: bool
    ) -> DeclaredLink:
        def values(known: Declaration) -> dict[str, Any]:
            # Since the first check the link may have become synchronous.
            check_attachable(known)
            return dict.fromkeys(map(attachment, maps), True)

        found = await self.change(name, values, dry_run=dry_run)
        if closing is not None and not dry_run:
            await closing()
        return found

    async def _closing(
        self,
        declarations: Declarations,
        declared: Declared,
        known: Declaration,
        maps: Collection[NamespaceMap],
        enforce: Keeping | None,
    ) -> Callable[[], Awaitable[None]] | None:
        """Return the function that closes namespaces once they are attached; check first that rules can close them."""
        if enforce is None:
            return None
        target = declared.alias_of(known.target)
        if target is None or not declared.is_there(target):
            raise away(declared, (known.target,))
        cluster = self._configuration.cluster(target)
        keep = choose_keepers(known, cluster, enforce)
        await check_closable(declarations.client(target), maps, keep)
        return partial(close, cluster, self._session, maps, keep, self._configuration.ledger)

    async def delete(
        self, name: str, *, on_step: Callable[[str], None] = lambda _: None, dry_run: bool = False
    ) -> DeclaredLink:
        """Detach everything and delete the link. Reserved namespaces stay reserved, topics as they are. A deletion that
        one of its clusters does not know yet can be repeated.

        As a detachment it waits until no lane writes to what is detached, and writes down where the records came from.
        If the target does not answer, or this configuration cannot run the link, it is deleted without.

        :raises ConfigError: There is no such link.
        :raises PlanRefused: The same was changed meanwhile, or the link is being recovered.
        :raises GateNotMet: The lanes do not end in time; a repeated call goes on.
        :raises ClusterError: None of its clusters could be written to.
        """
        from isthmus.links.promotion import Promoter

        if await self._can_be_left(name) and not dry_run:
            leaving = Promoter(configuration=self._configuration, session=self._session, name=name, on_step=on_step)
            await leaving.detach(is_final=True)
        return await self.change(name, deletion, even_deleted=True, dry_run=dry_run)

    async def _can_be_left(self, name: str) -> bool:
        """Whether what is attached by a link that is to be deleted can be detached from here.

        :raises ConfigError: There is no such link, or all its clusters know that it was deleted.
        """
        _, declared = await read_declarations(self._configuration, self._session)
        known = _require_declared(declared, name, half_deleted=True)
        is_of_file = any(link.name == name for link in self._configuration.links)
        target = declared.alias_of(known.target)
        is_there = target is not None and declared.is_there(target)
        return is_there and not is_of_file and declared.link(known, self._configuration) is not None

    def _standing(self, declared: Declared, declaration: Declaration) -> DeclaredLink:
        return DeclaredLink(
            declaration=declaration,
            written_by_file=any(link.name == declaration.name for link in self._configuration.links),
            behind=declared.behind(declaration),
            away=declared.away_of(declaration),
            unusable=self._unusable(declared, declaration),
            overruled=declared.find_overruled(declaration),
        )

    def _unusable(self, declared: Declared, declaration: Declaration) -> Problem | None:
        problem = declared.missing_end(declaration)
        if problem is not None or declaration.is_deleted:
            return problem
        try:
            declared_link(
                declaration, *(self._cluster(declared, end) for end in (declaration.source, declaration.target))
            )
        except ConfigError as error:
            return problem_of(error)
        return None

    def _cluster(self, declared: Declared, end: End) -> Cluster:
        return self._configuration.cluster(declared.alias_of(end) or end.alias)

    async def _create(
        self,
        new: _New,
        cluster_ids: Mapping[str, str],
        *,
        validate: bool,
        enforce: Keeping | None,
        dry_run: bool,
    ) -> DeclaredLink:
        name, source, target, maps, mode, settings = new
        check_new_mode(mode)
        check_settings(settings)
        clusters = self._configuration.cluster(source), self._configuration.cluster(target)
        if any(link.name == name for link in self._configuration.links):
            raise PlanRefused(
                f"the configuration file has a link {name}, which would win over a declared one",
                hint="Choose another name, or take the link out of the file first.",
            )
        declarations, declared = await read_declarations(self._configuration, self._session)
        ends = declared.end(source), declared.end(target)
        check_ids(ends, cluster_ids)
        if ends[0].cluster_id == ends[1].cluster_id:
            raise PlanRefused(
                f"source {source} and target {target} are the same cluster ({ends[0].cluster_id})",
                hint="A link goes from one cluster into another: correct bootstrap_servers of one of them.",
            )
        known = declared.links.get(name, Declaration(name=name, registers=()))
        values = {
            SOURCE: {"cluster_id": ends[0].cluster_id, "alias": source},
            TARGET: {"cluster_id": ends[1].cluster_id, "alias": target},
            MODE: mode,
            DELETED: False,
            **dict.fromkeys(map(attachment, maps), True),
            **as_registers(settings),
        }
        check_new(known, values)
        # Settings from before its deletion are not set again.
        values |= dict.fromkeys(as_registers(known.settings).keys() - values.keys())
        for each in set(maps).difference(known.maps):
            await check_prefix(declarations.client(source), each.source)
        wanted = known.join(change_registers(known.registers, values, author(ends[1].cluster_id)))
        link = declared_link(wanted, *clusters)
        if enforce is not None:
            await check_closable(declarations.client(target), maps, choose_keepers(wanted, clusters[1], enforce))
        if validate:
            examined = replace(self._configuration, clusters=clusters, links=(link,), warnings=())
            await handshake(examined, f"link {name}")
        for end in ends:
            values[f"{SEMANTICS}{end.cluster_id}"] = await semantics_of(declarations.client(end.alias))
        declared = replace(declared, links=declared.links.as_if(known))
        return await self._write(declarations, declared, known, values, ends, needs_all=True, dry_run=dry_run)

    async def _check_left_in(self, name: str, login: str) -> None:
        """Require that a link may have this login at its target; see `check_left_in`."""
        _, declared = await read_declarations(self._configuration, self._session)
        known = _require_declared(declared, name)
        if (target := declared.alias_of(known.target)) is not None:
            check_left_in(declared, known, self._configuration.cluster(target), login)

    async def _semantics(self, name: str) -> dict[str, Any]:
        """Return, as registers, what the clusters of a link that answer can keep now."""
        declarations, declared = await read_declarations(self._configuration, self._session)
        known = _require_declared(declared, name)
        return {
            f"{SEMANTICS}{end.cluster_id}": await semantics_of(declarations.client(alias))
            for end in (known.source, known.target)
            if (alias := declared.alias_of(end)) is not None and declared.is_there(alias)
        }

    async def change(
        self,
        name: str,
        values: Callable[[Declaration], dict[str, Any]],
        *,
        spares_source: bool = False,
        even_deleted: bool = False,
        dry_run: bool = False,
    ) -> DeclaredLink:
        """Write `values` of what is declared; with `spares_source` nothing is written there, and with `even_deleted`
        the link may have been deleted.

        :raises ConfigError: There is no such link.
        :raises PlanRefused: It would contradict other declarations, or the same was changed meanwhile.
        :raises ClusterError: None of the clusters could be written to.
        """
        declarations, declared = await read_declarations(self._configuration, self._session)
        known = _require_declared(declared, name, deleted=even_deleted)
        ends = known.source, known.target
        if spares_source and (source := declared.alias_of(known.source)) is not None:
            target = declared.alias_of(known.target)
            if target is None or not declared.is_there(target):
                raise away(declared, (known.target,))
            spared = Problem("it is left alone", "It learns of the change from the process that runs links of it.")
            declared = replace(declared, away={**declared.away, source: spared})
        return await self._write(declarations, declared, known, values(known), ends, dry_run=dry_run)

    async def _write(
        self,
        declarations: Declarations,
        declared: Declared,
        known: Declaration,
        values: Mapping[str, Any],
        ends: tuple[End, End],
        *,
        needs_all: bool = False,
        dry_run: bool,
    ) -> DeclaredLink:
        source, target = (declared.alias_of(end) for end in ends)
        aliases = [alias for alias in (target, source) if alias is not None and declared.is_there(alias)]
        if not aliases or (needs_all and len(aliases) < len(ends)):
            raise away(declared, ends)
        new = change_registers(known.registers, values, author(declared.ids[aliases[0]]))
        after = known.join(new)
        check_maps(declared, after)
        if not after.is_deleted:
            declared_link(after, *(self._cluster(declared, end) for end in ends))
        if dry_run:
            return self._standing(replace(declared, links=declared.links.as_if(after, aliases)), after)
        declared = await write_checked(declarations, declared, known, new, aliases)
        await self._settle_reading(declarations, declared, after)
        return self._standing(declared, _require_declared(declared, known.name, deleted=True))

    async def _settle_reading(self, declarations: Declarations, declared: Declared, known: Declaration) -> None:
        """Allow all to read at the target what is SYNCING no more. Rules against readers are made by the process that
        runs the link: it is there when they have to be removed.

        :raises ClusterError: Rules cannot be removed; a repeated call continues.
        """
        alias = declared.alias_of(known.target)
        if alias is None or not declared.is_there(alias):
            return
        has_rules = any(made_against_readers(each.registers) for each in declared.namespaces.get(alias, {}).values())
        if has_rules:
            await settle_reading(declarations, self._configuration.cluster(alias), makes=False)


def _require_declared(
    declared: Declared, name: str, *, deleted: bool = False, half_deleted: bool = False
) -> Declaration:
    hint = "Links of the file are changed there, or by isthmus settings."
    return declared.require_link(name, hint, deleted=deleted, half_deleted=half_deleted)
