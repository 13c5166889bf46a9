"""The schema registry of the target gets what the primary one holds (docs/schemas.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from isthmus.errors import HostError
from isthmus.ledger.distributed import DistributedSchemas
from isthmus.ledger.documents.kinds import SchemaIdsDocument
from isthmus.loops.loop import LinkView
from isthmus.model.link import Link
from isthmus.model.loop import Change
from isthmus.model.problem import problem_of
from isthmus.model.schemas.content import VersionKey
from isthmus.model.schemas.gate import SchemaIds
from isthmus.schemas.distribution import MAKING, apply_changes, registry_contents, registry_pair
from isthmus.schemas.execution import apply_schemas
from isthmus.schemas.planning import RegistryPair, SchemaChange, SchemaVerb, known_ids, plan_schemas
from isthmus.schemas.registry import open_registry

SCHEMAS_LOOP: Final = "schemas"


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryChange(Change):
    """A change of a registry, in the form of the other loops."""

    change: SchemaChange


class SchemasLoop:
    """Registers missing schemas, deletes deleted ones, and sets the compatibility of the source.

    Links into one cluster do that concurrently: changes of one link are found done by the others.
    """

    name = SCHEMAS_LOOP

    def __init__(self) -> None:
        self._held: dict[VersionKey, int] | None = None
        self._pair: RegistryPair | None = None
        self._distributed: DistributedSchemas | None = None

    async def aclose(self) -> None:
        """Close the ledger."""
        if self._distributed is not None:
            self._distributed.close()
            self._distributed = None

    def interval_s(self, link: Link) -> float | None:
        route = link.target.schemas
        return None if route is None else route.interval_s

    async def look(self, view: LinkView) -> Sequence[Change]:
        route = view.link.target.schemas
        if route is None:
            return ()
        self._held = self._pair = None
        try:
            known = self._open_distributed(view).read_versions
            self._pair = pair = await registry_pair(route, await registry_contents(route.primary), known)
        except HostError as error:
            return (_build_failure("registry", "", problem=error),)
        self._held = known_ids(pair)
        return tuple(_change(each) for each in plan_schemas(pair) if each.is_needed)

    def is_awaited(self, view: LinkView) -> bool:
        """Whether a lane waits for a schema: then the registries are compared at once, and again soon."""
        return any(report.schema_id >= 0 for report in view.reports.values())

    async def apply(self, view: LinkView, changes: Sequence[Change]) -> Sequence[Change]:
        route = view.link.target.schemas
        ours = [change for change in changes if isinstance(change, RegistryChange)]
        left: list[Change] = [change for change in changes if not isinstance(change, RegistryChange)]
        if route is None:
            return left
        done: Sequence[SchemaChange] = ()
        if ours:
            async with open_registry(route.target) as registry:
                done = await apply_schemas(registry, [change.change for change in ours])
        if self._pair is not None:
            await self._open_distributed(view).note(*apply_changes(self._pair, done))
        if route.gate.is_there and self._held is not None:
            await self._write_ids(view, self._held, done)
        return [*left, *(_change(each) for each in done if each.problem is not None)]

    def _open_distributed(self, view: LinkView) -> DistributedSchemas:
        if self._distributed is None:
            self._distributed = DistributedSchemas(view.target)
        return self._distributed

    async def _write_ids(self, view: LinkView, held: Mapping[VersionKey, int], done: Sequence[SchemaChange]) -> None:
        """Write to the ledger which ids the registry has now, for lanes that wait.

        :raises ClusterError: The ledger cannot be written.
        """
        ids = dict(held)
        for each in done:
            if each.version is not None and each.verb is SchemaVerb.DELETE:
                ids.pop(each.version.key, None)
            elif each.version is not None and each.verb in MAKING and each.problem is None:
                ids[each.version.key] = each.version.id
        document = SchemaIdsDocument(link=view.link.name, ranges=SchemaIds.of(ids.values()).ranges)
        if view.documents.get(document.key) != document:
            await view.remember(document)


def _change(change: SchemaChange) -> RegistryChange:
    before, after = change.before, change.after
    if before is None and after is None:
        after = str(change.verb)
    return RegistryChange(
        loop=SCHEMAS_LOOP,
        subject=f"schema {change.what}" if change.version is not None else change.what,
        setting=str(change.verb),
        before=before,
        after=after,
        problem=change.problem,
        change=change,
    )


def _build_failure(subject: str, setting: str, *, problem: HostError) -> Change:
    return Change(
        loop=SCHEMAS_LOOP, subject=subject, setting=setting, before=None, after=None, problem=problem_of(problem)
    )
