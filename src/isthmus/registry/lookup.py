"""Schemas of one registry, found by ids and by subjects. Ids never change their meaning within a registry, but another
one may come behind its address: what was found is asked for again now and then.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple, Self, TypeVar

from isthmus.errors import ConfigError, RegistryRefused, RegistryUnreachable
from isthmus.kafka.connect.credentials import renewed_registry
from isthmus.model.cluster import Cluster, SchemaRegistry
from isthmus.model.schemas.content import Schema, SchemaReference
from isthmus.model.schemas.subjects import context_of, qualify
from isthmus.registry.answers import list_of, number_of, schema_of, subject_path
from isthmus.registry.client import ANSWER_S, RegistryClient

_NOT_FOUND: Final = 404
"""The first digits of the registry's own numbers for what it does not have."""
_DENIALS_MAX: Final = 10_000
_K = TypeVar("_K")


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterSchema:
    """A schema that records were written with. `referenced` are the schemas that it refers to, each by the name that
    is used for it, those that others need first.
    """

    id: int
    schema: Schema
    referenced: tuple[tuple[str, Schema], ...] = ()


class FoundSchemas(NamedTuple):
    """Schemas by their ids. Ids in `denied` certainly have none; for those in `doubted` the registry says so, and why
    that does not count yet.
    """

    schemas: Mapping[int, WriterSchema]
    denied: frozenset[int]
    doubted: Mapping[int, str]


NO_SCHEMAS: Final = FoundSchemas({}, frozenset(), {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """For how long (s) an answer may take, a schema that was found is not asked for again, the same goes for all of
    them while the registry is silent, and a registry has to deny an id, by how many `denials`.
    """

    answer_s: float = ANSWER_S
    fresh_s: float = 300.0
    silent_s: float = 30.0
    denied_s: float = 60.0
    denials: int = 3


class _Held(NamedTuple):
    """A schema that was found, and when."""

    schema: WriterSchema
    at: float


class _Denial(NamedTuple):
    """Since when and how often a registry has denied an id, and when it did so last."""

    since: float
    last: float
    answers: int = 1


@dataclass(slots=True)
class _Shelf:
    """What was found in a registry, with the login that it was found with. Ids mean something in their context."""

    registry: SchemaRegistry
    ids: dict[tuple[str, int], _Held] = field(default_factory=dict)
    versions: dict[tuple[str, int], _Held] = field(default_factory=dict)
    denials: dict[tuple[str, int], _Denial] = field(default_factory=dict)
    silent_until: float = 0.0


class SchemaBook:
    """The schemas of one registry that were found so far. Close it, or enter it; connections belong to one event loop.

    All methods raise HostError if the extra is not installed, RegistryUnreachable if the registry does not answer, and
    RegistryRefused if it answers with an error.
    """

    _shelves: Final[dict[tuple[str, str], _Shelf]] = {}
    """By cluster and address, as Spark reuses its Python workers: leases follow one another."""

    def __init__(self, registry: SchemaRegistry, patience: Patience | None = None) -> None:
        self._registry = registry
        self._patience = patience or Patience()
        self._client: RegistryClient | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close all connections."""
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    def _shelf(self) -> _Shelf:
        """What was found with the login that holds now: another one may lead to another registry."""
        now, place = renewed_registry(self._registry), (self._registry.alias, self._registry.url)
        if place not in self._shelves or self._shelves[place].registry != now:
            self._shelves[place] = _Shelf(now)
        return self._shelves[place]

    async def find(self, ids: Iterable[int], subjects: Collection[str] = ()) -> FoundSchemas:
        """Return the schemas of these ids, in the context of these subjects.

        A replica of a registry that lags denies what is new. So an id is denied for some time, and the registry has to
        have any of the subjects, before that counts.
        """
        shelf, context = self._shelf(), context_of(min(subjects, default=""))
        found, denied, doubted = dict[int, WriterSchema](), set[int](), dict[int, str]()
        for one in dict.fromkeys(ids):
            key = (context, one)
            schema = await self._look_up(shelf, shelf.ids, key, partial(self._ask_id, one, context, subjects))
            if schema is not None:
                shelf.denials.pop(key, None)
                found[one] = schema
            elif doubt := await self._doubt(shelf, key, subjects):
                doubted[one] = doubt
            else:
                denied.add(one)
        return FoundSchemas(found, frozenset(denied), doubted)

    async def find_subjects(self, subjects: Collection[str]) -> dict[str, tuple[WriterSchema, ...]]:
        """Return the schemas of subjects in the order of their versions, without deleted ones; none for a subject that
        does not exist.
        """
        return {subject: tuple(await self._find_versions(subject)) for subject in sorted(subjects)}

    async def _find_versions(self, subject: str) -> list[WriterSchema]:
        listed = await self._ask(f"{subject_path(subject)}/versions")
        if listed is None:
            return []
        shelf, found = self._shelf(), list[WriterSchema]()
        for number in sorted(list_of(listed, int, self._registry.alias)):
            ask = partial(self._ask_version, subject, number)
            # It may have been deleted in between.
            if (schema := await self._look_up(shelf, shelf.versions, (subject, number), ask)) is not None:
                found.append(schema)
        return found

    async def _look_up(
        self,
        shelf: _Shelf,
        known: MutableMapping[_K, _Held],
        key: _K,
        ask: Callable[[], Awaitable[WriterSchema | None]],
    ) -> WriterSchema | None:
        """Return a schema. What is known of it holds as long as the registry says nothing else."""
        held, now = known.get(key), time.monotonic()
        if held is not None and (now < shelf.silent_until or now - held.at < self._patience.fresh_s):
            return held.schema
        try:
            found = await ask()
        except (RegistryUnreachable, RegistryRefused):
            if held is None:
                raise
            shelf.silent_until = now + self._patience.silent_s
            found = None
        if found is not None:
            known[key] = _Held(found, now)
            return found
        return None if held is None else held.schema

    async def _doubt(self, shelf: _Shelf, key: tuple[str, int], subjects: Collection[str]) -> str:
        """Return why it does not count yet that the registry denies an id, "" if it does."""
        now, patience = time.monotonic(), self._patience
        before = shelf.denials.get(key)
        if before is None or now - before.last > 2 * patience.denied_s:
            before = _Denial(now, now, 0)
            while len(shelf.denials) >= _DENIALS_MAX:
                del shelf.denials[next(iter(shelf.denials))]
        denial = shelf.denials[key] = _Denial(before.since, now, before.answers + 1)
        says = f"{describe_registry(self._registry)} has no schema {key[1]}"
        if denial.answers < patience.denials or now - denial.since < patience.denied_s:
            return f"{says}, which counts when it has said so for {patience.denied_s:g} s: a replica of it may lag"
        if not await self._has_any(subjects):
            return f"{says}, nor any version of {', '.join(sorted(subjects)) or 'a subject'}: it may be another one"
        return ""

    async def _has_any(self, subjects: Collection[str]) -> bool:
        for each in sorted(subjects):
            if await self._ask(f"{subject_path(each)}/versions", deleted="true"):
                return True
        return not subjects and bool(await self._ask("/subjects", deleted="true"))

    async def _ask_version(self, subject: str, number: int) -> WriterSchema | None:
        answer = await self._ask(subject_path(subject, number))
        if answer is None:
            return None
        schema_id = number_of(answer, "id", self._registry.alias)
        return await self._complete(schema_id, answer, context_of(subject))

    async def _ask_id(self, schema_id: int, context: str, subjects: Collection[str]) -> WriterSchema | None:
        within = {"subject": min(subjects)} if context else {}
        answer = await self._ask(f"/schemas/ids/{schema_id}", **within)
        return None if answer is None else await self._complete(schema_id, answer, context)

    async def _complete(self, schema_id: int, answer: Any, context: str) -> WriterSchema:
        """Add what a schema refers to.

        :raises RegistryRefused: What it refers to is not there.
        """
        schema = schema_of(answer, self._registry.alias)
        referenced: dict[str, Schema] = {}
        await self._refer(schema_id, schema.references, context, referenced, ())
        return WriterSchema(id=schema_id, schema=schema, referenced=tuple(referenced.items()))

    async def _refer(
        self,
        schema_id: int,
        references: Iterable[SchemaReference],
        context: str,
        found: dict[str, Schema],
        way: tuple[str, ...],
    ) -> None:
        for each in references:
            if each.name in found:
                continue
            subject = qualify(each.subject, context)
            # Deleted versions are found as well: a schema that is in use may refer to one.
            answer = None if each.name in way else await self._ask(subject_path(subject, each.version), deleted="true")
            if answer is None:
                raise RegistryRefused(
                    f"{describe_registry(self._registry)} has schema {schema_id}, and not what it refers to: "
                    f"version {each.version} of {subject}",
                    status=_NOT_FOUND,
                    cluster=self._registry.alias,
                    hint="Register that version there again.",
                )
            schema = schema_of(answer, self._registry.alias)
            await self._refer(schema_id, schema.references, context_of(subject), found, (*way, each.name))
            found[each.name] = schema

    async def _ask(self, path: str, **query: Any) -> Any:
        """Ask the registry; `None` if it says itself that it does not have that. A 404 of anything else in its place (a
        proxy, another path) is no such answer.
        """
        if self._client is None:
            self._client = RegistryClient(self._registry, within_s=self._patience.answer_s)
        try:
            return await self._client.ask("GET", path, **query)
        except RegistryRefused as refused:
            if refused.code // 100 == _NOT_FOUND:
                return None
            raise


def registry_of(cluster: Cluster) -> SchemaRegistry:
    """Return the registry of a cluster.

    :raises ConfigError: It has none.
    """
    if cluster.schema_registry is None:
        raise ConfigError(
            f"a transform decodes by schemas, and {cluster.alias} has no schema registry",
            field=f"clusters.{cluster.alias}.schema_registry",
            hint=f"Give clusters.{cluster.alias}.schema_registry its url, as producers of {cluster.alias} have it.",
        )
    return cluster.schema_registry


def describe_registry(registry: SchemaRegistry) -> str:
    """Return what people call a registry."""
    return f"the schema registry of {registry.alias} ({registry.url})"
