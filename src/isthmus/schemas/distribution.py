"""What registries hold, in what they differ from the primary one, and how they are made alike."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from isthmus.errors import ClusterError, ConfigError, IsthmusError, PlanRefused, RegistryUnreachable
from isthmus.kafka.client import Client
from isthmus.kafka.session import ClientSession
from isthmus.ledger.distributed import DistributedSchemas
from isthmus.model.cluster import Cluster, SchemaRegistry, SchemaRoute
from isthmus.model.configuration import Configuration
from isthmus.model.problem import Problem, problem_of
from isthmus.model.schemas.content import IMPORT, READWRITE, DistributedVersion, RegistryContents, VersionKey
from isthmus.model.schemas.subjects import logical_name
from isthmus.model.text.plain import PlainValue, computed_field
from isthmus.schemas.execution import apply_schemas
from isthmus.schemas.planning import (
    RegistryPair,
    SchemaChange,
    SchemaVerb,
    has_more,
    plan_schemas,
    shared_versions,
)
from isthmus.schemas.registry import open_registry

_HOW: Final = (
    "Write schemas.primary, and clusters.<alias>.schema_registry for each cluster that has one: docs/schemas.md."
)

AskDistributed = Callable[[], Awaitable[Mapping[VersionKey, DistributedVersion]]]
"""Asks the ledger what was distributed to a registry."""
MAKING: Final = (SchemaVerb.REGISTER, SchemaVerb.RESTORE)
_LEDGER_S: Final = 5.0

OnRegistryChange = Callable[[str, int, int], None]
"""Called with the alias of a registry, how many of its changes were made or refused, and how many there are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemasPlan(PlainValue):
    """The changes that make a registry equal to the primary one.

    With a `problem` that could not be found out.
    """

    registry: str
    primary: str
    changes: tuple[SchemaChange, ...] = ()
    problem: Problem | None = None

    @computed_field(before="changes")
    def is_alike(self) -> bool:
        """Whether there is nothing to be done."""
        return self.problem is None and not any(change.is_needed or change.problem for change in self.changes)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrySummary(PlainValue):
    """A registry, whether it is the primary one, and how much it holds, or why that could not be found out."""

    registry: str
    role: str
    url: str
    subjects: int | None = None
    versions: int | None = None
    mode: str | None = None
    problem: str | None = None


class AsyncSchemas:
    """The schema registries of a configuration."""

    def __init__(self, configuration: Configuration, session: ClientSession) -> None:
        self._configuration = configuration
        self._session = session

    async def contents(self, alias: str | None = None) -> RegistryContents:
        """All that a registry holds; without an alias that of the primary one.

        :raises ConfigError: There is no such registry.
        :raises ClusterError: It cannot be asked.
        """
        return await registry_contents(self.registry(alias))

    def registry(self, alias: str | None = None) -> SchemaRegistry:
        """The registry of that cluster; without an alias the primary one, or the only one.

        :raises ConfigError: There is no such registry.
        """
        there = [each.schema_registry for each in self._configuration.clusters if each.schema_registry is not None]
        if alias is None and self._configuration.schemas is not None:
            alias = self._configuration.schemas.primary
        if alias is None and len(there) == 1:
            return there[0]
        if alias is None:
            raise ConfigError("which registry is the primary one is not configured", hint=_HOW)
        found = self._configuration.cluster(alias).schema_registry
        if found is None:
            raise ConfigError(f"cluster {alias} has no schema registry", hint=_HOW)
        return found

    def logical(self, alias: str, subject: str) -> str:
        """What users call the topic of a subject."""
        settings = self._configuration.schemas
        return logical_name(subject, None if settings is None else settings.templates.get(alias))

    def routes(self, aliases: Collection[str] = ()) -> tuple[SchemaRoute, ...]:
        """How schemas come into these registries, or into all but the primary one.

        :raises ConfigError: There is no such registry, or one is the primary, or no primary is configured.
        """
        clusters: Sequence[Cluster] = self._configuration.clusters
        if self._configuration.schemas is None:
            raise ConfigError("schemas are not distributed: no primary registry is configured", hint=_HOW)
        if aliases:
            clusters = [self._configuration.cluster(alias) for alias in aliases]
        found = tuple(each.schemas for each in clusters if each.schemas is not None)
        without = [each.alias for each in clusters if each.schemas is None]
        if aliases and without:
            primary = self._configuration.schemas.primary
            what = "is the primary registry" if without[0] == primary else "has no schema registry"
            raise ConfigError(f"cluster {without[0]} {what}", hint="Name clusters that have another registry.")
        if not found:
            raise ConfigError("there is no registry beside the primary one", hint=_HOW)
        return found

    async def registries(self) -> tuple[RegistrySummary, ...]:
        """All of them, the primary one first.

        :raises ConfigError: See `routes`.
        """
        routes = self.routes()
        others = (_summary("other", route.target) for route in routes)
        return tuple(await asyncio.gather(_summary("primary", routes[0].primary), *others))

    async def plan(self, aliases: Collection[str] = (), *, delete_gone: bool = False) -> tuple[SchemasPlan, ...]:
        """What each of these registries, or all, need to hold what the primary holds. Nothing is changed.

        With `delete_gone` what the primary has no more is to be deleted though it was not deleted softly before.

        :raises ConfigError: See `routes`.
        """
        routes = self.routes(aliases)
        held = asyncio.ensure_future(registry_contents(routes[0].primary))
        return tuple(await asyncio.gather(*(self._plan(route, held, delete_gone=delete_gone) for route in routes)))

    async def sync(
        self,
        aliases: Collection[str] = (),
        *,
        delete_gone: bool = False,
        on_change: OnRegistryChange = lambda *_: None,
    ) -> tuple[SchemasPlan, ...]:
        """Make these registries, or all, hold what the primary holds; the changes, those that were refused with why.

        A registry that does not answer has a problem, and the others go on. `on_change` is called for each change.

        :raises ConfigError: See `routes`.
        """
        routes = self.routes(aliases)
        held = asyncio.ensure_future(registry_contents(routes[0].primary))
        synced = (self._sync_route(route, held, on_change, delete_gone=delete_gone) for route in routes)
        return tuple(await asyncio.gather(*synced))

    async def move_primary(self, alias: str, *, force: bool = False, dry_run: bool = False) -> tuple[SchemasPlan, ...]:
        """Have people write to the registry of this cluster in place of the primary one. The modes that change for that
        are returned: none where registries have no modes. What the file says is left to its owner.

        Nothing is registered at the present primary from then on. What came there until then is distributed first. With
        `force` the present primary, which is gone, is not asked: what only it has stays there.

        :raises ConfigError: There is no such registry, or no primary is configured.
        :raises PlanRefused: It does not hold what the present primary holds, or people write to another one already.
        :raises ClusterError: A registry does not answer, or refuses.
        """
        primary = self.registry()
        if alias == primary.alias:
            # Taken back, or begun and not ended: people write here again.
            async with open_registry(primary) as here:
                back = _modes(alias, alias, (await here.contents()).mode, READWRITE)
                if back.changes and not dry_run:
                    await here.set_mode(READWRITE)
                return (back,)
        (route,) = self.routes([alias])
        if force:
            return (await _opened_to_people(route, dry_run=dry_run),)
        # Looked at before the primary, which is closed before another one is opened.
        others = await self._others()
        try:
            mode = (await self.contents(primary.alias)).mode
        except RegistryUnreachable as error:
            error.hint = f"If it is gone for long: isthmus schemas primary {alias} --force."
            raise
        if mode == IMPORT:
            _check_not_moved(others, alias, primary.alias)
        else:
            _check(*await self.plan([alias]))
        closed = await self._close_registries(route, mode, others, dry_run=dry_run)
        return *closed, await self._open_registry(route, dry_run=dry_run)

    async def _plan(
        self, route: SchemaRoute, held: asyncio.Future[RegistryContents], *, delete_gone: bool
    ) -> SchemasPlan:
        plan = SchemasPlan(registry=route.target.alias, primary=route.primary.alias)
        try:
            pair = await registry_pair(route, await held, partial(self._read_known, route))
        except ClusterError as error:
            return replace(plan, problem=problem_of(error))
        return replace(plan, changes=plan_schemas(pair, delete_gone=delete_gone))

    async def _sync_route(
        self,
        route: SchemaRoute,
        held: asyncio.Future[RegistryContents],
        on_change: OnRegistryChange,
        *,
        delete_gone: bool,
    ) -> SchemasPlan:
        plan = SchemasPlan(registry=route.target.alias, primary=route.primary.alias)
        try:
            pair = await registry_pair(route, await held, partial(self._read_known, route))
            changes = plan_schemas(pair, delete_gone=delete_gone)
            if any(change.is_needed for change in changes):
                async with open_registry(route.target) as registry:
                    changes = await apply_schemas(registry, changes, partial(on_change, route.target.alias))
        except ClusterError as error:
            return replace(plan, problem=problem_of(error))
        await self._note(route, pair, changes)
        return replace(plan, changes=tuple(changes))

    def _client(self, route: SchemaRoute) -> Client:
        return self._session.client(self._configuration.cluster(route.target.alias))

    async def _read_known(self, route: SchemaRoute) -> Mapping[VersionKey, DistributedVersion]:
        """What the ledger of the registry's cluster has as distributed; nothing where it cannot be read."""
        with contextlib.suppress(IsthmusError, TimeoutError):
            async with asyncio.timeout(_LEDGER_S):
                schemas = DistributedSchemas(self._client(route))
                try:
                    return await schemas.read_versions()
                finally:
                    schemas.close()
        return {}

    async def _note(self, route: SchemaRoute, pair: RegistryPair, changes: Sequence[SchemaChange]) -> None:
        """Write down what both registries have. Where the ledger cannot be written, the next one does it."""
        with contextlib.suppress(IsthmusError, TimeoutError):
            async with asyncio.timeout(_LEDGER_S):
                schemas = DistributedSchemas(self._client(route), self._configuration.ledger.replication_factor)
                try:
                    await schemas.note(*apply_changes(pair, changes))
                finally:
                    schemas.close()

    async def _others(self) -> tuple[RegistrySummary, ...]:
        return tuple(await asyncio.gather(*(_summary("other", route.target) for route in self.routes())))

    async def _close_registries(
        self, route: SchemaRoute, mode: str | None, others: Collection[RegistrySummary], *, dry_run: bool
    ) -> tuple[SchemasPlan, ...]:
        """Have people write to none of the registries but the one that becomes the primary, which gets all that came to
        the former one until then. While that one is open, another that is open as well only was not synchronized yet.
        """
        target, primary = route.target.alias, route.primary
        is_moved = any(each.registry == target and each.mode == READWRITE for each in others) and mode == IMPORT
        beside = [each.registry for each in others if each.mode == READWRITE and each.registry != target]
        closed = (
            *(_modes(each, target, READWRITE, IMPORT) for each in beside),
            _modes(primary.alias, target, mode, IMPORT),
        )
        if dry_run or is_moved:
            return closed
        for each in beside:
            async with open_registry(self.registry(each)) as there:
                await there.set_mode(IMPORT)
        async with open_registry(primary) as here:
            await here.set_mode(IMPORT)
            # Somebody may have registered something since both were looked at.
            (synced,) = await self.sync([target])
            if synced.problem is not None or any(change.problem for change in _beside_modes(synced)):
                if all(each.mode != READWRITE for each in await self._others()):
                    await here.set_mode(READWRITE)
                _check(synced)
        return closed

    async def _open_registry(self, route: SchemaRoute, *, dry_run: bool) -> SchemasPlan:
        """Have people write to the other registry, if none is open by now: of two that are opened at the same time, at
        least the later one is seen to be one too many.
        """
        found = await _opened_to_people(route, dry_run=dry_run)
        if not dry_run:
            try:
                _check_alone(await self._others(), route.target.alias)
            except PlanRefused:
                async with open_registry(route.target) as there:
                    await there.set_mode(IMPORT)
                raise
        return found


async def _summary(role: str, registry: SchemaRegistry) -> RegistrySummary:
    summary = RegistrySummary(registry=registry.alias, role=role, url=registry.url)
    try:
        held = await registry_contents(registry)
    except ClusterError as error:
        return replace(summary, problem=error.message)
    return replace(summary, subjects=len(held.subjects), versions=len(held.versions), mode=held.mode)


async def registry_contents(registry: SchemaRegistry) -> RegistryContents:
    """All that a registry holds.

    :raises HostError: The extra is not installed.
    :raises ClusterError: It cannot be asked.
    """
    async with open_registry(registry) as there:
        return await there.contents()


async def registry_pair(route: SchemaRoute, held: RegistryContents, known: AskDistributed) -> RegistryPair:
    """Both registries side by side, where the primary holds this. What the ledger has `known` as distributed is asked
    for if the other one has anything that the primary has not: anybody may have registered that there.

    :raises ClusterError: The other one cannot be asked.
    """
    there = await registry_contents(route.target)
    pair = RegistryPair(
        primary=route.primary.alias, target=route.target.alias, held=held, there=there, naming=route.naming
    )
    if not has_more(pair):
        return pair
    distributed = await known()
    found = {key: each.source for key, each in distributed.items() if _is_there(there, key, each)}
    return replace(pair, distributed=found)


def _is_there(there: RegistryContents, key: VersionKey, each: DistributedVersion) -> bool:
    return key in there.versions and there.versions[key].id == each.id


def apply_changes(
    pair: RegistryPair, changes: Iterable[SchemaChange]
) -> tuple[Mapping[VersionKey, DistributedVersion], Collection[VersionKey]]:
    """What both registries have once these changes were made, and all that the other one has then."""
    done = [each for each in changes if each.problem is None and each.version is not None]
    made = [each.version for each in done if each.verb in MAKING and each.version is not None]
    gone = {each.version.key for each in done if each.verb is SchemaVerb.DELETE and each.version is not None}
    there = ({*pair.there.versions} | {version.key for version in made}) - gone
    return shared_versions(pair, made), there


async def _opened_to_people(route: SchemaRoute, *, dry_run: bool) -> SchemasPlan:
    async with open_registry(route.target) as there:
        plan = _modes(route.target.alias, route.target.alias, (await there.contents()).mode, READWRITE)
        if plan.changes and not dry_run:
            await there.set_mode(READWRITE)
    return plan


def _modes(registry: str, primary: str, before: str | None, after: str) -> SchemasPlan:
    """The mode that a registry gets, if it has one and it is another."""
    change = SchemaChange(verb=SchemaVerb.MODE, before=before, after=after)
    return SchemasPlan(registry=registry, primary=primary, changes=() if before in (None, after) else (change,))


def _check_not_moved(others: Collection[RegistrySummary], alias: str, primary: str) -> None:
    """See that a primary registry which nobody may write to was not moved elsewhere: that it is about to be.

    :raises PlanRefused: It was, or that is unknown.
    """
    for each in others:
        if each.problem is not None:
            raise PlanRefused(
                f"nobody may write to {primary}, and whether they write to {each.registry}: {each.problem}",
                hint=f"If they do not: isthmus schemas primary {primary} has them write there again, and "
                f"isthmus schemas primary {alias} --force asks no other registry.",
            )
    _check_alone(others, alias)


def _check_alone(others: Collection[RegistrySummary], alias: str) -> None:
    """See that people write to no other registry than this one.

    :raises PlanRefused: They do: ids would be given twice.
    """
    for each in others:
        if each.registry != alias and each.mode == READWRITE:
            raise PlanRefused(
                f"people write to {each.registry}: the primary was moved there",
                hint=f"Write schemas.primary: {each.registry}, and move it from there. If {each.registry} was to be "
                "moved at the same time and is refused as well, ask again.",
            )


def _check(plan: SchemasPlan) -> None:
    if plan.problem is not None:
        raise PlanRefused(f"{plan.registry}: {plan.problem.message}", hint=plan.problem.hint)
    if any(change.is_needed or change.problem for change in _beside_modes(plan)):
        raise PlanRefused(
            f"{plan.registry} does not hold what {plan.primary} holds",
            hint=f"isthmus schemas diff {plan.registry} shows it, isthmus schemas sync {plan.registry} does it.",
        )


def _beside_modes(plan: SchemasPlan) -> list[SchemaChange]:
    """What a registry lacks: its mode says only who may write there."""
    return [change for change in plan.changes if change.verb is not SchemaVerb.MODE]
