"""A link's transform tried on records of its source. Nothing is changed anywhere."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, NamedTuple

from isthmus.engine.batches.rebatch import Record
from isthmus.engine.mapped.transformer import Changed, Delayed, Failure, Portion, TransformFailed, build_portion
from isthmus.errors import ConfigError, PlanRefused
from isthmus.fabric.blocking import in_loop
from isthmus.fabric.comparing import OpenedWithSpark
from isthmus.kafka.batches.records import StoredRecord
from isthmus.kafka.client import Client
from isthmus.kafka.log.listoffsets import PartitionKey
from isthmus.kafka.log.offsets import log_ranges
from isthmus.kafka.log.reading import OffsetRange
from isthmus.kafka.log.samples import first_records, newest_records
from isthmus.memory.filtering import in_force
from isthmus.model.cluster import SchemaRegistry
from isthmus.model.kafka.log import LogRange
from isthmus.model.link import Link
from isthmus.model.links.transform import RecordPart, RecordPath, Transform, TransformWay
from isthmus.model.links.trial import ShownRecord, TransformTrial, TrialResult, TriedRecord, shown_record
from isthmus.model.naming import SourceTopic
from isthmus.model.schemas.gate import schema_id
from isthmus.registry.lookup import NO_SCHEMAS, FoundSchemas, SchemaBook, WriterSchema, describe_registry, registry_of
from isthmus.spark.application import SparkApplication
from isthmus.spark.formats.decoding import Asked, PartDecoder, Prepared, build_decoders
from isthmus.spark.formats.types import SchemaOrigin
from isthmus.spark.transforms.calls import Calls
from isthmus.spark.transforms.python import build_functions
from isthmus.spark.transforms.resolving import NO_SCHEMA_HINT, all_subjects, subjects_of
from isthmus.topics.names import find_topics

RECORDS_MAX: Final = 1_000
WITHIN_S: Final = 60.0
"""How long a function may take for the records of a trial: a link waits for it without an end."""
_AT_ONCE: Final = 8
_LOG_APPEND_TIME: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sample:
    """The records to try: of one `partition` or all, the newest, or from `offset_begin` on, at most `limit`."""

    partition: int | None = None
    limit: int = 20
    offset_begin: int | None = None


async def transform_trial(
    opened: OpenedWithSpark,
    link: str,
    topic: str,
    *,
    partition: int | None = None,
    limit: int = 20,
    offset_begin: int | None = None,
    within_s: float = WITHIN_S,
) -> Callable[[], TransformTrial]:
    """What tries the transform of a topic, named as at the source or as at the target, on records of the source: the
    newest that consumers at read_committed see, or those from `offset_begin` on, at most `limit`. They are read here;
    the function that is returned blocks while the transform works, for which expressions need Spark; a Python function
    has to be done `within_s`.

    :raises ConfigError: There is no link of that name, it does not mirror the topic, or that has no such partition.
    :raises PlanRefused: The link does not change records of the topic.
    :raises ClusterError: The source does not answer.
    """
    if not 0 < limit <= RECORDS_MAX:
        raise ConfigError(f"{limit} records cannot be tried at once", hint=f"Give 1 to {RECORDS_MAX:,}.")
    (chosen,) = await in_force(opened.links(link), opened.session)
    source_topic = _find_topic(chosen, topic)
    transform = chosen.transform_of(source_topic)
    if transform is None:
        raise PlanRefused(
            f"link {link} copies records of {topic} as they are: no transform is for it",
            hint="isthmus plan shows the topics that are changed; docs/transforms.md has how to write a transform.",
        )
    wanted = _Sample(partition=partition, limit=limit, offset_begin=offset_begin)
    records = await _read(opened.session.client(chosen.source), source_topic, wanted)
    schemas = await look_up(
        chosen, transform, source_topic, [each for _, each in records], opened.session.client(chosen.source)
    )

    def try_it() -> TransformTrial:
        tried, unfound = _try(transform, source_topic, records, opened.application, schemas, within_s)
        return TransformTrial(
            link=chosen.name,
            source=chosen.source.alias,
            topic=source_topic,
            transform=transform,
            unfound=tuple(map(str, unfound)),
            records=tried,
        )

    return try_it


class TopicSchemas(NamedTuple):
    """The schemas of topics of one transform: those of their subjects, and those that records name, by their parts.
    Where records are copied by some already, others that do not go with them are `set_aside`.
    """

    registry: SchemaRegistry
    topics: Sequence[SourceTopic]
    subjects: Mapping[str, Sequence[WriterSchema]]
    written: Mapping[RecordPart, FoundSchemas]
    set_aside: bool = False


async def look_up(
    link: Link, transform: Transform, topic: SourceTopic, records: Sequence[Record | StoredRecord], source: Client
) -> TopicSchemas | None:
    """Ask the source's registry for the schemas of records of a topic; `None` if the transform decodes by none.

    Types are those of all topics that have the transform, as they are in a run.

    :raises ConfigError: The source has no registry.
    :raises PlanRefused: It has no schema of the topics.
    :raises ClusterError: The source, or its registry, does not answer.
    """
    if not transform.has_schemas:
        return None
    registry = registry_of(link.source)
    selected = (await find_topics(source, link.topics)).there.values()
    topics = sorted({topic, *(each for each in selected if link.transform_of(each) == transform)})
    async with SchemaBook(registry) as book:
        subjects = await book.find_subjects(all_subjects(transform, topics))
        if not any(subjects.values()):
            raise _without_schemas(topic, f"{describe_registry(registry)} has no schema for {', '.join(subjects)} yet")
        written: dict[RecordPart, FoundSchemas] = {}
        for part in (RecordPart.KEY, RecordPart.VALUE):
            if names := subjects_of(transform, part, topics):
                ids = {schema_id(getattr(each, part)) for each in records}
                # A schema that cannot be had holds back no records of others.
                written[part] = await book.find_most(sorted(one for one in ids if one is not None), names)
        return TopicSchemas(registry, topics, subjects, written)


def _without_schemas(topic: str, problem: str) -> PlanRefused:
    return PlanRefused(f"records of {topic} cannot be decoded: {problem}", hint=NO_SCHEMA_HINT)


def _find_topic(link: Link, name: str) -> SourceTopic:
    target = link.topics.find_target(name)
    source = None if target is None else link.topics.source_of(target) or SourceTopic(name)
    if source is None:
        raise ConfigError(
            f"link {link.name} does not mirror a topic named {name}", hint="isthmus plan shows those that it mirrors."
        )
    return source


async def _read(client: Client, topic: SourceTopic, wanted: _Sample) -> list[tuple[int, StoredRecord]]:
    """Read the wanted records, in the order of their times and of partitions; each with its partition."""
    spans = await _spans(client, topic, wanted)
    share = -(-wanted.limit // max(len(spans), 1)) if wanted.offset_begin is None else wanted.limit
    turns = asyncio.Semaphore(_AT_ONCE)

    async def read(span: OffsetRange, most: int) -> list[tuple[int, StoredRecord]]:
        take = newest_records if wanted.offset_begin is None else first_records
        async with turns:
            return [(span.partition, record) for record in await take(client, span, most)]

    found = await asyncio.gather(*(read(span, share) for span in spans))
    merged = sorted((each for part in found for each in part), key=lambda each: (each[1].timestamp, each[0]))
    return merged[-wanted.limit :]


async def _spans(client: Client, topic: SourceTopic, wanted: _Sample) -> list[OffsetRange]:
    """Return the ranges to look into, those that hold records alone."""
    count = len((await client.metadata([topic])).topics[topic].partitions)
    if not count:
        raise ConfigError(f"{client.cluster.alias} has no topic {topic}", hint="isthmus plan shows those that it has.")
    if wanted.partition is not None and wanted.partition >= count:
        raise ConfigError(f"{topic} has no partition {wanted.partition}", hint=f"They are 0 to {count - 1}.")
    if wanted.offset_begin is not None and wanted.partition is None and count > 1:
        raise ConfigError(
            f"{topic} has {count} partitions, each with offsets of its own", hint="Name one of them: --partition."
        )
    chosen: Collection[int] = range(count) if wanted.partition is None else (wanted.partition,)
    keys: list[PartitionKey] = [(topic, number) for number in chosen]
    outcomes = await log_ranges(client, keys)
    for error in outcomes.errors.values():
        raise error
    spans = (_span(key, log, wanted) for key, log in sorted(outcomes.values.items()))
    return [span for span in spans if not span.is_empty]


def _span(key: PartitionKey, log: LogRange, wanted: _Sample) -> OffsetRange:
    begin = log.start if wanted.offset_begin is None else max(wanted.offset_begin, log.start)
    return OffsetRange(key[0], key[1], begin, log.stable_end)


def _try(
    transform: Transform,
    topic: SourceTopic,
    records: Sequence[tuple[int, StoredRecord]],
    application: SparkApplication,
    schemas: TopicSchemas | None,
    within_s: float,
) -> tuple[tuple[TriedRecord, ...], Sequence[RecordPath]]:
    parts: dict[int, list[StoredRecord]] = {}
    for partition, record in records:
        parts.setdefault(partition, []).append(record)
    portions = [_portion(transform, topic, partition, part) for partition, part in sorted(parts.items())]
    outcomes, decoders, unfound = _change(transform, portions, application, schemas, within_s)
    tried = tuple(
        _describe_trial(portion.lane.partition, record, found, decoders)
        for portion, outcome in zip(portions, outcomes, strict=True)
        for record, found in zip(portion.records, outcome, strict=True)
    )
    return tried, unfound


class _Changes(NamedTuple):
    """What becomes of the records of each portion, what decodes them, and the paths that none of them has."""

    outcomes: Sequence[Sequence[Changed]]
    decoders: Mapping[RecordPart, PartDecoder] = MappingProxyType({})
    unfound: Sequence[RecordPath] = ()


async def change_portions(
    link: Link, source: Client, transform: Transform, portions: Sequence[Portion], application: SparkApplication
) -> Sequence[Sequence[Changed]]:
    """Return what a transform makes of the records of each portion, all of them of one topic. Expressions need Spark.

    :raises PlanRefused: The transform cannot be applied at all, or the registry has no schema of the topic.
    :raises ConfigError: Spark does not understand an expression.
    :raises ClusterError: The source, or its registry, does not answer.
    :raises HostError: Spark cannot be started here.
    """
    records = [each for portion in portions for each in portion.records]
    schemas = await look_up(link, transform, portions[0].lane.source_topic, records, source) if portions else None
    lenient = None if schemas is None else schemas._replace(set_aside=True)
    return (await asyncio.to_thread(_change, transform, portions, application, lenient)).outcomes


def _change(
    transform: Transform,
    portions: Sequence[Portion],
    application: SparkApplication,
    schemas: TopicSchemas | None,
    within_s: float | None = None,
) -> _Changes:
    if transform.way is not TransformWay.SQL:
        return _Changes(_call(transform, portions, within_s))
    # It loads Spark and pyarrow, which other commands do without.
    from isthmus.spark.transforms.schemawatch import prepare_columns
    from isthmus.spark.transforms.trial import try_expressions

    spark = application.session()
    prepared = Prepared(transform)
    if schemas is not None:
        topics = schemas.topics
        settled = frozenset[SchemaOrigin]() if schemas.set_aside else None
        registry = describe_registry(schemas.registry)
        prepared = prepare_columns(
            spark.sparkContext, transform, frozenset(topics), schemas.subjects, registry, settled
        )
        if prepared.problem:
            raise _without_schemas(", ".join(topics), prepared.problem)
    decoders = build_decoders(prepared)
    asked: dict[RecordPart, Asked] = {}
    for part, decoder in decoders.items():
        written = NO_SCHEMAS if schemas is None else schemas.written[part]
        decoder.learn(written.schemas)
        asked[part] = Asked(written.denied, written.doubted)
    found = try_expressions(spark, prepared, portions, decoders, asked)
    return _Changes(found.outcomes, decoders, found.unfound)


def _portion(transform: Transform, topic: SourceTopic, partition: int, stored: Sequence[StoredRecord]) -> Portion:
    """Build the records of one partition as its lane would have them."""
    records = [Record(each.offset, each.timestamp, each.key, each.value, each.headers) for each in stored]
    are_appended = [each.timestamp_type == _LOG_APPEND_TIME for each in stored]
    return build_portion(topic, partition, transform.digest, records, are_appended)


def _call(transform: Transform, portions: Sequence[Portion], within_s: float | None) -> list[Sequence[Changed]]:
    """Return what a function makes of records of each partition.

    :raises PlanRefused: The transform cannot be applied at all, or takes too long.
    """
    (transformer,) = build_functions([transform], Calls()).values()
    found: list[Sequence[Changed]] = []

    async def change() -> None:
        async with asyncio.timeout(within_s):
            for portion in portions:
                found.append(await transformer.change(portion))

    try:
        in_loop(change())
    except TransformFailed as error:
        raise PlanRefused(
            f"the transform cannot be applied: {error}",
            hint=error.hint or "Correct the name, or install the module where this runs, and on the executors.",
        ) from error
    except TimeoutError as error:
        portion = portions[len(found)]
        first, last = portion.records[0].offset, portion.records[-1].offset
        raise PlanRefused(
            f"{transform.python} is not done after {within_s:g} s: it was called with records of partition "
            f"{portion.lane.partition}, offsets {first} to {last}",
            hint="A link would wait for it, and copy nothing of that partition. See what it waits for; --limit and "
            "--from-offset find the record.",
        ) from error
    return found


def _describe_trial(
    partition: int, record: Record, found: Changed, decoders: Mapping[RecordPart, PartDecoder]
) -> TriedRecord:
    before = _show_record(record, decoders)
    tried = TriedRecord(partition=partition, offset=record.offset, result=TrialResult.LEFT_OUT, before=before)
    if found is None:
        return tried
    if isinstance(found, (Failure, Delayed)):
        result = TrialResult.FAILED if isinstance(found, Failure) else TrialResult.WAITING
        return replace(tried, result=result, reason=found.reason)
    is_same = found._replace(offset=record.offset, headers=list(found.headers)) == record
    result = TrialResult.UNCHANGED if is_same else TrialResult.CHANGED
    return replace(tried, result=result, after=_show_record(found, decoders))


def _show_record(record: Record, decoders: Mapping[RecordPart, PartDecoder]) -> ShownRecord:
    key, value = (
        decoders[part].show(held) if part in decoders else held
        for part, held in ((RecordPart.KEY, record.key), (RecordPart.VALUE, record.value))
    )
    return shown_record(record.timestamp, key, value, record.headers)
