"""Patterns of a link that match nothing at its source: probably misspelt, perhaps only early."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from typing import Final, Literal

from isthmus.kafka import codes
from isthmus.kafka.client import Client
from isthmus.kafka.groups.groups import list_groups, merge_listings
from isthmus.kafka.metadata import Metadata
from isthmus.model.link import Link
from isthmus.model.namespace import NamespaceNaming
from isthmus.model.naming import RESERVED_PREFIX
from isthmus.model.problem import Problem
from isthmus.model.selection import TopicPattern
from isthmus.model.text.patterns import NamePattern, find_unmatched
from isthmus.model.text.suggestion import nearest
from isthmus.model.text.wording import first_few

_log = logging.getLogger(__name__)
_HIDDEN: Final = "If there are some, DESCRIBE on them is missing."

PatternKind = Literal["topic", "group"]


def unmatched_topic_patterns(link: Link, found: Metadata) -> tuple[TopicPattern, ...]:
    """Return the prefixes and expressions that select no topic; missing names have problems of their own."""
    there = [name for name, topic in found.topics.items() if topic.error_code != codes.UNKNOWN_TOPIC_OR_PARTITION]
    nameless = set(link.topics.nameless(there))
    patterns = [pattern for pattern in link.topics.include if pattern.kind != "literal"]
    return find_unmatched(patterns, [name for name in there if name not in nameless])


async def topic_names(source: Client) -> list[str]:
    """Return all topics that may be seen, without those of Kafka and of Isthmus.

    :raises ClusterError: The cluster did not answer.
    """
    return [name for name in (await source.metadata(None)).topics if not name.startswith(RESERVED_PREFIX)]


async def unmatched_topics(link: Link, found: Metadata, source: Client) -> tuple[Problem, ...]:
    """Return warnings about the patterns that select none of the topics that were found.

    :raises ClusterError: The cluster did not answer.
    """
    patterns = unmatched_topic_patterns(link, found)
    if not patterns:
        return ()
    return warnings(link, "topic", patterns, await topic_names(source))


async def unmatched_groups(link: Link, source: Client) -> tuple[Problem, ...]:
    """Return warnings about patterns that match no group of the source; none where a broker did not list its groups.

    :raises ClusterError: The cluster as a whole did not answer.
    """
    if not link.groups.is_configured:
        return ()
    outcome = await list_groups(source)
    if outcome.errors:
        return ()
    names = list(merge_listings(outcome))
    patterns = find_unmatched(link.groups.include, [name for name in names if link.groups.matches(name)])
    return warnings(link, "group", patterns, names)


def warnings(
    link: Link, kind: PatternKind, patterns: Sequence[NamePattern], names: Collection[str]
) -> tuple[Problem, ...]:
    """Return one sentence for each pattern without matches, and a likely name for it; `names` are all there are."""
    return tuple(
        Problem(
            _nothing(link, kind, pattern),
            f"{_left_out(link, kind, pattern, names) or _suggestion(kind, pattern, names)} What matches later is taken "
            "up as soon as it is there.",
        )
        for pattern in patterns
        if not _has_nothing_attached(link, kind, pattern)
    )


def _has_nothing_attached(link: Link, kind: PatternKind, pattern: NamePattern) -> bool:
    """Whether the pattern is a default that is meant to match nothing: so it is while a link is detached."""
    naming = link.topics.naming if kind == "topic" else link.groups.naming
    return str(pattern) == "*" and isinstance(naming, NamespaceNaming) and not naming.maps


def _nothing(link: Link, kind: PatternKind, pattern: NamePattern) -> str:
    if link.namespaces and str(pattern) == "*":
        # That pattern is a default of declared links.
        return f"{link.source.alias} has no {kind} in a namespace of the link"
    return f'{kind}s.include "{pattern}" matches no {kind} of {link.source.alias}'


def tell_unmatched(link: Link, problems: Sequence[Problem]) -> None:
    """Warn while a link runs about patterns of its configuration that match nothing."""
    for problem in problems:
        _log.warning("%s: %s", link.name, problem.in_full)


def missing(name: str, link: Link, names: Collection[str]) -> Problem:
    """Return the problem of a topic that the link names and its source does not have."""
    near = nearest(TopicPattern("literal", name), names)
    meant = "" if near is None else f"Did you mean {near}? "
    return Problem(
        f"{link.source.alias} has no such topic",
        f"{meant}It is mirrored as soon as it is there. If it is there, DESCRIBE on it is missing.",
    )


def _left_out(link: Link, kind: PatternKind, pattern: NamePattern, names: Collection[str]) -> str:
    """Describe what a pattern matches although it is left out, and why; "" where it matches nothing."""
    matching = sorted(name for name in names if pattern.matches(name))
    if not matching:
        return ""
    if kind == "group":
        return f"It matches {first_few(matching)}, which groups.exclude or groups.naming leaves out."
    nameless = link.topics.nameless(matching)
    if not nameless:
        return f"It matches {first_few(matching)}, which topics.exclude leaves out."
    why = link.topics.why_nameless(nameless[0]).message
    return f"It matches {first_few(nameless)}, which topics.naming leaves out: of {nameless[0]}, {why}."


def _suggestion(kind: PatternKind, pattern: NamePattern, names: Collection[str]) -> str:
    near = nearest(pattern, names)
    if near is not None:
        return f"The nearest name is {near}. {_HIDDEN}"
    return f"There are {len(names)} {kind}s we may see, and none has a name like it. {_HIDDEN}"
