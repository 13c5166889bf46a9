"""The steps that give a registry the content of the primary one. Pure.

Ids and versions are those of the primary: records carry ids. A schema that others refer to comes before them, and each
version after the one before it. Nothing is overwritten: if another schema is in the place, the change has a problem,
and so have all that need it. Nothing is deleted for good that was not distributed before, and seen deleted softly
since.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Final

from isthmus.errors import SchemaConflict
from isthmus.model.problem import Problem, problem_of
from isthmus.model.schemas.content import IMPORT, DistributedVersion, RegistryContents, SchemaVersion, VersionKey
from isthmus.model.schemas.subjects import SubjectNaming
from isthmus.model.text.plain import Hidden, PlainValue, TextOrNull, computed_field, null_if_empty

_DELETE_SOFTLY: Final = "Delete it softly at the primary first, or have it deleted: isthmus schemas sync --delete-gone."


class SchemaVerb(enum.StrEnum):
    """The changes of a registry, in this order."""

    MODE = "mode"
    """Make the registry accept versions with an id, and none from people."""
    REGISTER = "register"
    RESTORE = "restore"
    """Undo a soft deletion."""
    SOFT_DELETE = "soft delete"
    DELETE = "delete"
    """Delete for good, softly before that if needed."""
    COMPATIBILITY = "compatibility"
    KEEP = "keep"
    """It is in this registry only, and stays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaChange(PlainValue):
    """The change that a registry needs.

    `version` is its new form in the registry, under the registry's own subject; `source` is the subject at the primary,
    "" if it has none. With a `problem` it cannot be made, for that reason.
    """

    verb: Annotated[SchemaVerb, "change"]
    subject: TextOrNull = ""
    source: Annotated[str, "source_subject", null_if_empty] = ""
    version: Hidden[SchemaVersion | None] = None
    before: str | None = None
    after: str | None = None
    problem: Problem | None = None

    @property
    def is_needed(self) -> bool:
        """Whether the registries differ by it."""
        return self.verb is not SchemaVerb.KEEP

    @property
    def what(self) -> str:
        """The subject of the change, for people."""
        if self.version is not None:
            return str(self.version)
        return self.subject or "the registry"

    @computed_field(before="before")
    def number(self) -> Annotated[int | None, "version"]:
        return None if self.version is None else self.version.version

    @computed_field(before="before")
    def id(self) -> int | None:
        return None if self.version is None else self.version.id

    @computed_field(before="before")
    def type(self) -> str | None:
        return None if self.version is None else self.version.schema.type


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryPair:
    """The primary registry and another one, by their aliases, with the content of both and the naming of subjects.
    `distributed` are the versions that both had at some time by the ledger, each with its subject at the primary.

    `distributed` are the versions of which the ledger says that both had them at some time, each with its subject at
    the primary.
    """

    primary: str
    target: str
    held: RegistryContents
    there: RegistryContents
    naming: SubjectNaming = field(default_factory=SubjectNaming)
    distributed: Mapping[VersionKey, str] = field(default_factory=dict)


def plan_schemas(pair: RegistryPair, *, delete_gone: bool = False) -> tuple[SchemaChange, ...]:
    """Return all steps, in their order. With `delete_gone` a version that the primary has no longer is deleted even if
    it was never seen deleted softly there. A version that was never distributed is kept.
    """
    wanted, refused = _find_wanted(pair)
    found = [*refused, *_Versions(pair, wanted).changes(), *_plan_gone(pair, wanted, delete_gone=delete_gone)]
    order_of_verbs = list(SchemaVerb)
    # Sorting is stable: within a verb references stay before referrers, and behind them for deletions.
    changes = sorted([*found, *_compatibility(pair, wanted)], key=lambda change: order_of_verbs.index(change.verb))
    if wanted and pair.there.mode not in (None, IMPORT):
        changes.insert(0, _mode(pair))
    return tuple(changes)


def _mode(pair: RegistryPair) -> SchemaChange:
    """Return the change that makes the other registry accept only versions with ids; unless it has become the primary
    meanwhile.
    """
    change = SchemaChange(verb=SchemaVerb.MODE, before=pair.there.mode, after=IMPORT)
    if pair.held.mode != IMPORT:
        return change
    moved = Problem(
        f"people write to {pair.target} and no more to {pair.primary}: the primary was moved",
        f"Write schemas.primary: {pair.target}; or take it back: isthmus schemas primary {pair.primary}.",
    )
    return replace(change, problem=moved)


def _find_wanted(pair: RegistryPair) -> tuple[dict[VersionKey, tuple[str, SchemaVersion]], list[SchemaChange]]:
    """Return the versions for the registry, with their subjects at the primary; and refused changes, for different
    subjects that would be one there.
    """
    names: dict[str, list[str]] = {}
    for subject in pair.held.subjects:
        names.setdefault(pair.naming.translate(subject), []).append(subject)
    refused = [
        SchemaChange(
            verb=SchemaVerb.REGISTER,
            source=sources[0],
            subject=name,
            problem=problem_of(
                SchemaConflict(
                    f"{' and '.join(sources)} of {pair.primary} would all be {name} at {pair.target}",
                    hint="Give the template of this registry what keeps them apart.",
                )
            ),
        )
        for name, sources in names.items()
        if len(sources) > 1
    ]
    wanted: dict[VersionKey, tuple[str, SchemaVersion]] = {}
    for version in pair.held.versions.values():
        name = pair.naming.translate(version.subject)
        if len(names[name]) == 1:
            schema = version.schema.translate(pair.naming)
            wanted[name, version.version] = version.subject, replace(version, subject=name, schema=schema)
    return wanted, refused


def has_more(pair: RegistryPair) -> bool:
    """Return whether the registry has content that does not follow from the primary's."""
    wanted, _ = _find_wanted(pair)
    return any(key not in wanted for key in pair.there.versions)


def shared_versions(pair: RegistryPair, made: Iterable[SchemaVersion] = ()) -> dict[VersionKey, DistributedVersion]:
    """Return the versions that both registries have, including those that were `made` since."""
    wanted, _ = _find_wanted(pair)
    there = {**pair.there.versions, **{version.key: version for version in made}}
    return {
        key: DistributedVersion(version.version, version.id, source)
        for key, (source, version) in wanted.items()
        if key in there and there[key].id == version.id and there[key].schema.is_like(version.schema)
    }


def known_ids(pair: RegistryPair) -> dict[VersionKey, int]:
    """Return the ids with the same meaning in both registries, by version; without those that belong to another schema.
    A version that was deleted softly is still found by its id.
    """
    wanted, _ = _find_wanted(pair)
    meant = {version.id: version.schema for _, version in wanted.values()}
    return {
        key: version.id
        for key, version in pair.there.versions.items()
        if version.id not in meant or version.schema.is_like(meant[version.id])
    }


class _Needs:
    """The needs of each version: all its references, and the version before it."""

    def __init__(self, versions: Iterable[SchemaVersion]) -> None:
        self._needs: dict[VersionKey, tuple[VersionKey, ...]] = {}
        last: VersionKey | None = None
        for version in sorted(versions, key=lambda each: each.key):
            references = ((each.subject, each.version) for each in version.schema.references)
            earlier = (last,) if last is not None and last[0] == version.subject else ()
            self._needs[version.key] = (*references, *earlier)
            last = version.key

    def of(self, key: VersionKey) -> tuple[VersionKey, ...]:
        return self._needs[key]

    def in_order(self) -> Iterator[VersionKey]:
        """Yield each version after those it needs; else by name."""
        done: set[VersionKey] = set()
        for first in self._needs:
            path = [first]
            while path:
                missing = (each for each in self._needs[path[-1]] if each in self._needs and each not in done)
                # A circle, which no registry would accept, is cut where it closes.
                following = next((each for each in missing if each not in path), None)
                if following is not None:
                    path.append(following)
                    continue
                key = path.pop()
                if key not in done:
                    done.add(key)
                    yield key


class _Versions:
    """Goes through the wanted versions, and remembers the impossible ones."""

    def __init__(self, pair: RegistryPair, wanted: Mapping[VersionKey, tuple[str, SchemaVersion]]) -> None:
        self._pair = pair
        self._find_wanted = wanted
        self._needs = _Needs(version for _, version in wanted.values())
        self._refused: dict[VersionKey, Problem] = {}
        self._by_id: dict[int, SchemaVersion] = {}
        for version in pair.there.versions.values():
            self._by_id.setdefault(version.id, version)

    def changes(self) -> list[SchemaChange]:
        found: list[SchemaChange] = []
        deleted: list[SchemaChange] = []
        for key in self._needs.in_order():
            source, version = self._find_wanted[key]
            there = self._pair.there.versions.get(key)
            change = SchemaChange(verb=SchemaVerb.REGISTER, source=source, subject=version.subject, version=version)
            problem = self._conflict(version, there) or self._waiting(key)
            if problem is not None:
                self._refused[key] = problem
                found.append(replace(change, problem=problem))
                continue
            if there is None:
                found.append(replace(change, after=f"id {version.id}"))
            if version.is_deleted and (there is None or not there.is_deleted):
                deleted.append(replace(change, verb=SchemaVerb.SOFT_DELETE))
            elif there is not None and there.is_deleted and not version.is_deleted:
                found.append(replace(change, verb=SchemaVerb.RESTORE))
        return [*found, *reversed(deleted)]

    def _conflict(self, version: SchemaVersion, there: SchemaVersion | None) -> Problem | None:
        pair = self._pair
        if there is not None:
            if there.id == version.id and there.schema.is_like(version.schema):
                return None
            return problem_of(
                SchemaConflict(
                    f"{version} is id {version.id} at {pair.primary}, and another schema at {pair.target}, "
                    f"where it is id {there.id}",
                    hint="Another client wrote to a registry that is not the primary one: delete the schema at "
                    f"{pair.target} for good.",
                )
            )
        holder = self._by_id.get(version.id)
        if holder is None or holder.schema.is_like(version.schema):
            return None
        return problem_of(
            SchemaConflict(
                f"id {version.id}, which {version} has at {pair.primary}, is that of {holder} at {pair.target}",
                hint=f"Delete {holder} for good at {pair.target} if it is not needed, or begin with an empty registry.",
            )
        )

    def _waiting(self, key: VersionKey) -> Problem | None:
        for needed in self._needs.of(key):
            subject, number = needed
            if needed in self._refused:
                return Problem(
                    f"it needs {subject} version {number}, which cannot be there", self._refused[needed].hint
                )
            if needed not in self._find_wanted:
                return Problem(f"it refers to {subject} version {number}, which {self._pair.primary} has not")
        return None


def _plan_gone(
    pair: RegistryPair, wanted: Mapping[VersionKey, tuple[str, SchemaVersion]], *, delete_gone: bool
) -> list[SchemaChange]:
    """Plan for the versions that only the registry has, referrers first."""
    there = pair.there.versions
    distributed = pair.distributed
    found: list[SchemaChange] = []
    for key in reversed(list(_Needs(there.values()).in_order())):
        if key in wanted:
            continue
        version, source = there[key], distributed.get(key, "")
        change = SchemaChange(verb=SchemaVerb.KEEP, source=source, subject=version.subject, version=version)
        if source and (source, version.version) not in pair.held.versions:
            if version.is_deleted or delete_gone:
                change = replace(change, verb=SchemaVerb.DELETE)
            else:
                reason = f"{version} is gone from {pair.primary}, where it was not seen deleted softly: it is kept"
                change = replace(change, problem=Problem(reason, _DELETE_SOFTLY))
        elif delete_gone and not source:
            reason = f"the ledger does not confirm that {version} was ever distributed to {pair.target}: it is kept"
            change = replace(
                change, problem=Problem(reason, f"If it is not needed, delete it at {pair.target} itself.")
            )
        found.append(change)
    return found


def _compatibility(
    pair: RegistryPair, wanted: Mapping[VersionKey, tuple[str, SchemaVersion]]
) -> Iterator[SchemaChange]:
    held, there = pair.held, pair.there
    if held.default_compatibility is not None and held.default_compatibility != there.default_compatibility:
        yield SchemaChange(
            verb=SchemaVerb.COMPATIBILITY, before=there.default_compatibility, after=held.default_compatibility
        )
    for name, source in sorted({(version.subject, source) for source, version in wanted.values()}):
        before, after = there.compatibility.get(name), held.compatibility.get(source)
        if before != after:
            yield SchemaChange(verb=SchemaVerb.COMPATIBILITY, source=source, subject=name, before=before, after=after)
