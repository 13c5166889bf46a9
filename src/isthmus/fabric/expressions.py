"""Expressions of transforms checked for a plan: by the registry whose schemas they decode by, and by Spark."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from isthmus.errors import ClusterError, ConfigError, HostError, IsthmusError
from isthmus.model.lane import LaneState
from isthmus.model.link import Link
from isthmus.model.links.transform import RecordPart, Transform, TransformWay
from isthmus.model.problem import Problem, problem_of
from isthmus.registry.lookup import SchemaBook, WriterSchema, describe_registry, registry_of
from isthmus.spark.application import SparkApplication
from isthmus.spark.transforms.resolving import NO_SCHEMA_HINT, all_subjects, subjects_of
from isthmus.topics.plan import Action, LinkPlan, TopicPlan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_WAIT: Final = "A run has its records wait, and goes on by itself."
_Subjects = Mapping[str, Sequence[WriterSchema]]


class _Check(NamedTuple):
    """Why records cannot be changed as things are, and what is to be known beside that."""

    reason: Problem | None = None
    note: Problem | None = None


async def check_expressions(plan: LinkPlan, link: Link, application: SparkApplication, *, with_spark: bool) -> LinkPlan:
    """Return the plan with what the registry of schemas and Spark say of the expressions of its topics. Spark is only
    asked `with_spark`, which takes seconds to start, or if it runs.
    """
    groups: dict[Transform, list[TopicPlan]] = {}
    for topic in plan.topics:
        if topic.is_copied and topic.transform is not None and topic.transform.way is TransformWay.SQL:
            groups.setdefault(topic.transform, []).append(topic)
    checked: dict[str, TopicPlan] = {}
    for transform, topics in groups.items():
        subjects: _Subjects = {}
        try:
            if transform.has_schemas:
                async with SchemaBook(registry_of(link.source)) as book:
                    subjects = await book.find_subjects(all_subjects(transform, [each.source_topic for each in topics]))
        except (ClusterError, ConfigError, HostError) as error:
            found = _Check(replace(problem_of(error), hint=f"{error.hint} {_WAIT}".strip()))
            checked |= {each.topic: _with_check(each, found) for each in topics}
            continue
        registry = describe_registry(registry_of(link.source)) if transform.has_schemas else ""
        found = _Check()
        if with_spark or application.running is not None:
            found = await asyncio.to_thread(_ask_spark, application, transform, topics, subjects, registry)
        for each in topics:
            checked[each.topic] = _with_check(each, _find_missing(transform, each, subjects, registry) or found)
    return replace(plan, topics=tuple(checked.get(each.topic, each) for each in plan.topics))


def _with_check(topic: TopicPlan, found: _Check) -> TopicPlan:
    if found.note is not None:
        topic = replace(topic, notes=(*topic.notes, found.note))
    if found.reason is None:
        return topic
    reasons = (*topic.reasons, found.reason)
    return replace(topic, action=Action.REFUSE, reasons=reasons, state=LaneState.BLOCKED)


def _find_missing(transform: Transform, topic: TopicPlan, subjects: _Subjects, registry: str) -> _Check | None:
    """Find a part that no schema is registered for: that of a topic without records may come with the first one."""
    for part in (RecordPart.KEY, RecordPart.VALUE):
        names = subjects_of(transform, part, [topic.source_topic])
        if names and not any(subjects.get(each) for each in names):
            problem = Problem(f"{registry} has no schema for {', '.join(sorted(names))}", f"{NO_SCHEMA_HINT} {_WAIT}")
            return _Check(reason=problem) if topic.lag_records > 0 else _Check(note=problem)
    return None


def _ask_spark(
    application: SparkApplication,
    transform: Transform,
    topics: Sequence[TopicPlan],
    subjects: _Subjects,
    registry: str,
) -> _Check:
    try:
        spark = application.session()
    except HostError as error:
        return _Check(note=Problem(f"expressions were not checked by Spark: {error.message}", error.hint))
    names = frozenset(str(each.source_topic) for each in topics)
    try:
        _prepare(spark, transform, names, subjects, registry, is_strict=True)
    except ConfigError as error:
        problem = Problem(f"records cannot be changed (transform): {error.message}", error.hint, error.error_code)
    except IsthmusError as error:
        return _Check(reason=problem_of(error))
    else:
        return _Check()
    if not any(subjects.values()):
        return _Check(reason=problem)
    try:
        _prepare(spark, transform, names, subjects, registry, is_strict=False)
    except IsthmusError:
        return _Check(reason=problem)
    others = (
        "Records of other schemas are copied if the link has copied by this transform; else its run ends with this."
    )
    return _Check(note=replace(problem, hint=f"{problem.hint} {others}"))


def _prepare(
    spark: SparkSession,
    transform: Transform,
    topics: frozenset[str],
    subjects: _Subjects,
    registry: str,
    *,
    is_strict: bool,
) -> None:
    # It loads Spark, which other commands do without.
    from isthmus.spark.transforms.schemawatch import prepare_columns

    prepare_columns(
        spark.sparkContext, transform, topics, subjects, registry, settled=None if is_strict else frozenset()
    )
