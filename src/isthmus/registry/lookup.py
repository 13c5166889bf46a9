"""Schemas of one registry, found by ids and by subjects. Ids never change their meaning within a registry, but another
one may come behind its address: what was found is asked for again now and then.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple, Self, TypeVar

from isthmus.deadline import Deadline
from isthmus.errors import ConfigError, IsthmusError, RegistryRefused, RegistryUnreachable
from isthmus.kafka.connect.credentials import renewed_registry
from isthmus.model.cluster import Cluster, SchemaRegistry
from isthmus.model.schemas.content import Schema, SchemaReference
from isthmus.model.schemas.subjects import context_of, qualify
from isthmus.registry.answers import list_of, number_of, schema_of, subject_path
from isthmus.registry.client import ANSWER_S, WITHIN_S, RegistryClient

_NOT_FOUND: Final = 404
"""The first digits of the registry's own numbers for what it does not have."""
_DENIALS_MAX: Final = 100_000
_FAR: Final = 1_000_000
"""Registries count their ids up. An id that is so far above ten times the highest known one is none of the next."""
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
    """For how long (s) an answer may take, a schema with all that it refers to may take, a schema that was found is not
    asked for again, the same goes for all of them while the registry is silent, and a registry has to deny an id, by
    how many `denials`. In one round ids are asked for `round_s` at most, and `ids_max` of them.
    """

    answer_s: float = ANSWER_S
    schema_s: float = WITHIN_S
    fresh_s: float = 300.0
    silent_s: float = 30.0
    denied_s: float = 60.0
    denials: int = 3
    round_s: float = 10.0
    ids_max: int = 1_000


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
    denied_at: dict[str, float] = field(default_factory=dict)
    """When a denial has counted last, by contexts."""
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
        found, failure = await self._find(ids, subjects)
        if failure is not None:
            raise failure
        return found

    async def find_most(self, ids: Iterable[int], subjects: Collection[str] = ()) -> FoundSchemas:
        """Return what `find` does, as far as the registry answers; other ids are doubted. It raises nothing."""
        return (await self._find(ids, subjects))[0]

    async def _find(self, ids: Iterable[int], subjects: Collection[str]) -> tuple[FoundSchemas, IsthmusError | None]:
        """Ask for one id after the other: those that are known before the registry falls silent count."""
        shelf, context = self._shelf(), context_of(min(subjects, default=""))
        found, unknown, doubted = dict[int, WriterSchema](), list[int](), dict[int, str]()
        wanted, deadline = list(dict.fromkeys(ids)), Deadline(self._patience.round_s)
        failure: IsthmusError | None = None
        for place, one in enumerate(wanted):
            if place >= self._patience.ids_max or (place and deadline.has_passed):
                doubted |= dict.fromkeys(wanted[place:], f"it is asked for after {place} others that came before it")
                break
            key = (context, one)
            try:
                schema = await self._look_up(shelf, shelf.ids, key, partial(self._ask_id, one, context, subjects))
            except IsthmusError as error:
                failure = error
                doubted |= dict.fromkeys(wanted[place:], _describe_failure(error))
                break
            if schema is None:
                self._note_denial(shelf, key)
                unknown.append(one)
            else:
                shelf.denials.pop(key, None)
                found[one] = schema
        try:
            doubts = await self._judge(shelf, context, unknown, subjects)
        except IsthmusError as error:
            failure = failure or error
            doubts = dict.fromkeys(unknown, _describe_failure(error))
        denied = frozenset(one for one in unknown if not doubts[one])
        doubted |= {one: doubts[one] for one in unknown if doubts[one]}
        return FoundSchemas(found, denied, doubted), failure

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
            found = await self._ask_within(ask)
        except (RegistryUnreachable, RegistryRefused):
            if held is None:
                raise
            # It may have been asked for long.
            shelf.silent_until = time.monotonic() + self._patience.silent_s
            found = None
        if found is not None:
            known[key] = _Held(found, now)
            return found
        return None if held is None else held.schema

    async def _ask_within(self, ask: Callable[[], Awaitable[WriterSchema | None]]) -> WriterSchema | None:
        try:
            async with asyncio.timeout(self._patience.schema_s):
                return await ask()
        except TimeoutError as error:
            raise RegistryUnreachable(
                f"{describe_registry(self._registry)} does not answer: no schema with all that it refers to within "
                f"{self._patience.schema_s:g} s",
                cluster=self._registry.alias,
                hint="See why it is so slow.",
            ) from error

    def _note_denial(self, shelf: _Shelf, key: tuple[str, int]) -> None:
        now, before = time.monotonic(), shelf.denials.pop(key, None)
        # A round is much shorter, so nobody waited for it meanwhile: what it means now may be new.
        if before is None or now - before.last > 2 * self._patience.denied_s:
            before = _Denial(now, now, 0)
        while len(shelf.denials) >= _DENIALS_MAX:
            del shelf.denials[next(iter(shelf.denials))]
        shelf.denials[key] = _Denial(before.since, now, before.answers + 1)

    async def _judge(
        self, shelf: _Shelf, context: str, ids: Collection[int], subjects: Collection[str]
    ) -> dict[int, str]:
        """Return for ids that were just denied why that does not count yet, "" if it does."""
        now, patience = time.monotonic(), self._patience
        says = f"{describe_registry(self._registry)} has no schema"
        counted = {one for one in ids if _is_steady(shelf.denials[context, one], patience)}
        has_counted = now - shelf.denied_at.get(context, -math.inf) <= 2 * patience.denied_s
        if counted or (ids and has_counted):
            highest = await self._find_highest(shelf, context, subjects)
            if highest is None:
                other = f"nor any version of {', '.join(sorted(subjects)) or 'a subject'}: it may be another one"
                return {one: f"{says} {one}, {other}" for one in ids}
            # Ids that no schema will have soon need no proof of their own: with many of them it would never come.
            counted |= {one for one in ids if highest and one > 10 * highest + _FAR}
        if counted:
            shelf.denied_at[context] = now
        lags = f"which counts when it has said so for {patience.denied_s:g} s: a replica of it may lag"
        return {one: "" if one in counted else f"{says} {one}, {lags}" for one in ids}

    async def _find_highest(self, shelf: _Shelf, context: str, subjects: Collection[str]) -> int | None:
        """Return the highest id that is known, 0 if none is; `None` if there is no subject."""
        names = sorted(subjects)
        if not names:
            listed = await self._ask("/subjects", deleted="true")
            names = list_of(listed or [], str, self._registry.alias)[:1]
        for name in names:
            listed = await self._ask(f"{subject_path(name)}/versions", deleted="true")
            if listed:
                number = max(list_of(listed, int, self._registry.alias))
                newest = await self._ask(subject_path(name, number), deleted="true")
                newest_id = 0 if newest is None else number_of(newest, "id", self._registry.alias)
                return max(newest_id, *(one for within, one in shelf.ids if within == context), 0)
        return None

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


def _describe_failure(error: IsthmusError) -> str:
    return f"cannot be asked for: {error} {error.hint}".strip()


def _is_steady(denial: _Denial, patience: Patience) -> bool:
    """Whether an id was denied often and long enough."""
    return denial.answers >= patience.denials and denial.last - denial.since >= patience.denied_s


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
