"""Makes the planned changes of a registry. A refused version stops only those that need it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import assert_never

from isthmus.errors import RegistryRefused, SchemaConflict
from isthmus.model.problem import Problem, problem_of
from isthmus.model.schemas.content import SchemaVersion, VersionKey
from isthmus.schemas.planning import SchemaChange, SchemaVerb
from isthmus.schemas.registry import SchemaStore

OnChange = Callable[[int, int], None]
"""Called with the number of changes that were made or refused, and the total."""


async def apply_schemas(
    registry: SchemaStore, changes: Sequence[SchemaChange], on_change: OnChange | None = None
) -> tuple[SchemaChange, ...]:
    """Make the changes that have no problem. Return all of them, those that failed with their problems.

    :raises RegistryUnreachable: It does not answer; what was done until then stays.
    :raises RegistryRefused: It does not take the mode without which it takes nothing.
    """
    refused: dict[VersionKey, SchemaVersion] = {}
    found: list[SchemaChange] = []
    for change in changes:
        if change.problem is None and change.is_needed:
            problem = _waiting(change, refused) or await _apply(registry, change)
            change = replace(change, problem=problem)
        if change.version is not None and change.verb is SchemaVerb.REGISTER and change.problem is not None:
            refused[change.version.key] = change.version
        found.append(change)
        if on_change is not None:
            on_change(len(found), len(changes))
    return tuple(found)


def _waiting(change: SchemaChange, refused: dict[VersionKey, SchemaVersion]) -> Problem | None:
    """Return why a version cannot be made now: its reference, or the version before it, was refused."""
    if change.version is None or not refused:
        return None
    needed = [(each.subject, each.version) for each in change.version.schema.references]
    subject, number = change.version.key
    needed += [key for key in refused if key[0] == subject and key[1] <= number]
    missing = next((refused[key] for key in needed if key in refused), None)
    return None if missing is None else Problem(f"it needs {missing}, which was refused")


async def _apply(registry: SchemaStore, change: SchemaChange) -> Problem | None:
    if change.verb is SchemaVerb.MODE:
        await registry.set_mode(change.after or "")
        return None
    try:
        if change.version is not None:
            await _version(registry, change.verb, change.version)
        else:
            await registry.set_compatibility(change.subject or None, change.after)
    except (RegistryRefused, SchemaConflict) as error:
        return problem_of(error)
    return None


async def _version(registry: SchemaStore, verb: SchemaVerb, version: SchemaVersion) -> None:
    match verb:
        case SchemaVerb.REGISTER:
            await registry.register(version)
        case SchemaVerb.RESTORE:
            await registry.restore(version)
        case SchemaVerb.SOFT_DELETE | SchemaVerb.DELETE:
            await registry.delete(version, for_good=verb is SchemaVerb.DELETE)
        case SchemaVerb.MODE | SchemaVerb.COMPATIBILITY | SchemaVerb.KEEP:
            pass
        case _:
            assert_never(verb)
