"""The schemas by which the transforms of a running link decode: looked at before a lane runs, and while it does."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from isthmus.errors import ConfigError, IsthmusError
from isthmus.model.cluster import Cluster
from isthmus.model.lane import Lane
from isthmus.model.links.transform import Transform, TransformWay
from isthmus.registry.lookup import SchemaBook, describe_registry, registry_of
from isthmus.spark.formats.decoding import Prepared
from isthmus.spark.formats.types import SchemaOrigin
from isthmus.spark.transforms.expressions import describe_error, parsing_session, require_sound
from isthmus.spark.transforms.fitting import find_fitting
from isthmus.spark.transforms.resolving import DECODED_PARTS, Subjects, all_subjects, resolve, set_aside, subjects_of

if TYPE_CHECKING:
    from pyspark import SparkContext

INTERVAL_S: Final = 30.0
RETRY_S: Final = 5.0
"""How soon schemas are looked at again that records wait for."""
_log = logging.getLogger(__name__)


class _Look(NamedTuple):
    """What was found of a transform's schemas, for these topics of the source. Columns are those of `settled` ones."""

    topics: frozenset[str]
    prepared: Prepared
    subjects: Subjects | None = None
    settled: frozenset[SchemaOrigin] = frozenset()


class SchemaWatch:
    """Knows the columns of the transforms that decode by schemas of the `source`'s registry. Close it.

    A mistake in one of the `first` transforms is an error, before anything is copied by it. In others the columns stay
    as they were: a schema that does not go with those that are copied makes its own records wait.
    """

    def __init__(self, source: Cluster, first: Iterable[Transform]) -> None:
        self._source = source
        self._first = {each.digest for each in first}
        self._looks: dict[str, _Look] = {}
        self._book: SchemaBook | None = None
        self._pause_s: float | None = None
        self._has_unseen = asyncio.Event()

    async def aclose(self) -> None:
        """Close the connections to the registry."""
        if self._book is not None:
            await self._book.aclose()

    @property
    def columns(self) -> tuple[Prepared, ...]:
        """What was found last, in the order of the transforms."""
        return tuple(self._looks[digest].prepared for digest in sorted(self._looks))

    def select_seen(self, lanes: Collection[Lane], transforms: Iterable[Transform]) -> list[Lane]:
        """Return the lanes whose schemas were looked at, and those that need none; others are looked at soon."""
        digests = {each.digest for each in _with_schemas(transforms)}
        seen = [lane for lane in lanes if lane.transform not in digests or self._has_seen(lane)]
        if len(seen) < len(lanes):
            self._has_unseen.set()
        return seen

    def _has_seen(self, lane: Lane) -> bool:
        look = self._looks.get(lane.transform)
        return look is not None and lane.source_topic in look.topics

    async def pause(self) -> None:
        """Wait until it is time to look again."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._pause_s):
                await self._has_unseen.wait()
        self._has_unseen.clear()

    async def look(self, spark: SparkContext, transforms: Iterable[Transform], lanes: Collection[Lane]) -> None:
        """Look at the schemas of all topics that lanes copy.

        :raises ConfigError: An expression does not go with them, and nothing was copied by it yet.
        """
        found = _with_schemas(transforms)
        for each in found:
            topics = frozenset(str(lane.source_topic) for lane in lanes if lane.transform == each.digest)
            if topics:
                await self._look(spark, each, topics)
        is_waited_for = any(look.prepared.problem for look in self._looks.values())
        self._pause_s = RETRY_S if is_waited_for else INTERVAL_S if found else None

    async def _look(self, spark: SparkContext, transform: Transform, topics: frozenset[str]) -> None:
        before = self._looks.get(transform.digest)
        try:
            registry = registry_of(self._source)
            self._book = self._book or SchemaBook(registry)
            subjects = await self._book.find_subjects(all_subjects(transform, topics))
            if before is not None and (before.topics, before.subjects) == (topics, subjects):
                return
            is_first = before is None and transform.digest in self._first
            settled = None if is_first else before.settled if before is not None else frozenset()
            prepared = await asyncio.to_thread(
                prepare_columns, spark, transform, topics, subjects, describe_registry(registry), settled
            )
        except IsthmusError as error:
            if isinstance(error, ConfigError) and before is None and transform.digest in self._first:
                raise
            # What was known of the schemas is true as long as nothing else is known.
            if before is None or before.prepared.problem:
                before = _Look(topics, Prepared(transform, problem=f"{error} {error.hint}".strip()))
            self._looks[transform.digest] = before._replace(topics=topics, subjects=None)
        else:
            _tell_aside(before, prepared)
            self._looks[transform.digest] = _Look(topics, prepared, subjects, _settle(prepared, subjects))


def _settle(prepared: Prepared, subjects: Subjects) -> frozenset[SchemaOrigin]:
    """The schemas that columns are made of."""
    aside = _aside(prepared)
    origins = (SchemaOrigin(name, each.id) for name, found in subjects.items() for each in found)
    return frozenset(each for each in origins if not prepared.problem and each.schema_id not in aside)


def _aside(prepared: Prepared) -> dict[int, str]:
    return dict(each for _, columns in prepared.decoded for each in columns.aside)


def _tell_aside(before: _Look | None, prepared: Prepared) -> None:
    known = {} if before is None else _aside(before.prepared)
    for schema_id, reason in _aside(prepared).items():
        if schema_id not in known:
            _log.warning("records of schema %d wait: %s", schema_id, reason)


def prepare_columns(
    spark: SparkContext,
    transform: Transform,
    topics: frozenset[str],
    subjects: Subjects,
    registry: str,
    settled: frozenset[SchemaOrigin] | None,
) -> Prepared:
    """Prepare a transform for the schemas of its topics.

    :raises ConfigError: It does not go with them, or Spark does not understand it.
    """
    try:
        return _prepare(spark, transform, topics, subjects, registry, settled)
    except IsthmusError:
        raise
    except Exception as error:  # a schema is anybody's, and other topics of the link go on
        raise ConfigError(
            f"the schemas of {', '.join(sorted(subjects))} cannot be used: {describe_error(error)}",
            field="transform",
            hint="Give the topics of other subjects a mapping of their own in transform.",
        ) from error


def _prepare(
    spark: SparkContext,
    transform: Transform,
    topics: frozenset[str],
    subjects: Subjects,
    registry: str,
    settled: frozenset[SchemaOrigin] | None,
) -> Prepared:
    checked: dict[Prepared, ConfigError | None] = {}

    def require(among: Subjects) -> Prepared:
        found = resolve(parsing_session(spark), transform, topics, among, registry)
        # Spark is not asked of the same columns again, whichever schemas lead to them.
        seen = _without_subjects(found)
        if seen not in checked:
            checked[seen] = _check(spark, found)
        if (error := checked[seen]) is not None:
            raise error
        return found

    try:
        return require(subjects)
    except ConfigError:
        # A type that became wider may not go with an expression any more.
        if settled is None:
            raise
    return _prepare_most(require, _origins(transform, topics, subjects), subjects, settled)


def _check(spark: SparkContext, prepared: Prepared) -> ConfigError | None:
    try:
        require_sound(spark, (prepared,))
    except ConfigError as error:
        return error
    return None


def _without_subjects(prepared: Prepared) -> Prepared:
    key, value = (each and each._replace(subjects=()) for each in (prepared.key, prepared.value))
    return prepared._replace(key=key, value=value)


def _origins(transform: Transform, topics: frozenset[str], subjects: Subjects) -> Sequence[Sequence[SchemaOrigin]]:
    """The schemas of each part, the oldest first: ids ascend."""
    named = [names for part in DECODED_PARTS if (names := subjects_of(transform, part, topics))]
    return [
        sorted(
            (SchemaOrigin(name, each.id) for name in names for each in subjects.get(name, ())),
            key=lambda origin: (origin.schema_id, origin.subject),
        )
        for names in named
    ]


def _prepare_most(
    require: Callable[[Subjects], Prepared],
    parts: Sequence[Sequence[SchemaOrigin]],
    subjects: Subjects,
    settled: frozenset[SchemaOrigin],
) -> Prepared:
    """Prepare a transform for all schemas of its parts that go together, and set the others aside.

    :raises ConfigError: None do.
    """

    def require_some(origins: Sequence[SchemaOrigin]) -> Prepared:
        chosen = set(origins)
        prepared = require(
            {
                name: [each for each in found if SchemaOrigin(name, each.id) in chosen]
                for name, found in subjects.items()
            }
        )
        if prepared.problem:
            raise ConfigError(prepared.problem)
        return prepared

    taken, left = find_fitting(require_some, parts, settled)
    return _with_aside(require_some(taken), {origin.schema_id: set_aside(error) for origin, error in left})


def _with_aside(prepared: Prepared, aside: Mapping[int, str]) -> Prepared:
    key, value = (each and each._replace(aside=tuple(sorted(aside.items()))) for each in (prepared.key, prepared.value))
    return prepared._replace(key=key, value=value)


def _with_schemas(transforms: Iterable[Transform]) -> Sequence[Transform]:
    return [each for each in transforms if each.has_schemas and each.way is TransformWay.SQL]
