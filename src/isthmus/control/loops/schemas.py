"""The schema registry of the target gets what the primary one holds (docs/schemas.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from isthmus.control.loops.loop import LinkView
from isthmus.errors import HostError
from isthmus.model.link import Link
from isthmus.model.loop import Change
from isthmus.model.problem import problem_of
from isthmus.schemas.planning import SchemaChange, plan_schemas

SCHEMAS_LOOP: Final = "schemas"


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryChange(Change):
    """A change of a registry, as the other loops have theirs."""

    change: SchemaChange


class SchemasLoop:
    """Registers what is missing, deletes what was deleted, and sets what compatibility is asked for.

    Links into one cluster do it beside each other: whatever one has done the others find done.
    """

    name = SCHEMAS_LOOP

    def interval_s(self, link: Link) -> float | None:
        route = link.target.schemas
        return None if route is None else route.interval_s

    async def look(self, view: LinkView) -> Sequence[Change]:
        route = view.link.target.schemas
        if route is None:
            return ()
        # Loaded by links that need it: whoever asks for a status wants no more of a loop than its name.
        from isthmus.control.schemas.distribution import registry_contents, registry_pair

        try:
            pair = await registry_pair(route, await registry_contents(route.primary))
        except HostError as error:
            return (_told("registry", "", problem=error),)
        return tuple(_change(each) for each in plan_schemas(pair) if each.is_needed)

    async def apply(self, view: LinkView, changes: Sequence[Change]) -> Sequence[Change]:
        route = view.link.target.schemas
        ours = [change for change in changes if isinstance(change, RegistryChange)]
        left: list[Change] = [change for change in changes if not isinstance(change, RegistryChange)]
        if route is None or not ours:
            return left
        from isthmus.schemas.execution import apply_schemas
        from isthmus.schemas.registry import opened

        async with opened(route.target) as registry:
            done = await apply_schemas(registry, [change.change for change in ours])
        return [*left, *(_change(each) for each in done if each.problem is not None)]


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


def _told(subject: str, setting: str, *, problem: HostError) -> Change:
    return Change(
        loop=SCHEMAS_LOOP, subject=subject, setting=setting, before=None, after=None, problem=problem_of(problem)
    )
