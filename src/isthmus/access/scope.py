"""Map the names of access rules from the source to the target, as far as a link mirrors them. Pure.

At the target a rule never covers more than the link carries there: a rule about many names stays one rule only if the
link carries all of them, and otherwise becomes a rule for each name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from isthmus.model.kafka.access import Rule, RulePattern
from isthmus.model.link import Link
from isthmus.model.naming import (
    RESERVED_PREFIX,
    Naming,
    PrefixNaming,
    SourceTopic,
    TargetTopic,
    moved_prefix,
)
from isthmus.model.text.patterns import NamePattern


class Place(NamedTuple):
    """The name or prefix of a rule at the target; `origin` is the name or prefix at the source."""

    name: str
    pattern: RulePattern
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NameScope:
    """The names of one kind that a link carries: `known` are the existing ones, source to target.

    `target_of` maps any name of the source to the target, `None` where the link does not carry it.
    """

    include: Sequence[NamePattern]
    exclude: Sequence[NamePattern]
    naming: Naming
    known: Mapping[str, str]
    target_of: Callable[[str], str | None]
    needs_known: bool

    def places(self, rule: Rule) -> tuple[Place, ...]:
        """Return the places of a rule of the source at the target: none, if the link carries none of its names."""
        if rule.prefix is None:
            name = self.known.get(rule.name) if self.needs_known else self.target_of(rule.name)
            return () if name is None else (Place(name, RulePattern.LITERAL, rule.name),)
        prefix = self._prefix_at_target(rule.prefix)
        if prefix is not None:
            return (Place(prefix, RulePattern.PREFIXED, rule.prefix),)
        return tuple(
            Place(target, RulePattern.LITERAL, source)
            for source, target in sorted(self.known.items())
            if rule.covers(source)
        )

    def is_scattered(self, rule: Rule) -> bool:
        """Whether a rule about many names, all of which the link carries, becomes one rule for each, by the naming."""
        return (
            rule.prefix is not None
            and self._carries_all(rule.prefix)
            and moved_prefix(self.naming, rule.prefix) is None
        )

    def has(self, place: Place) -> bool:
        """Whether the link still carries the names that an earlier rule was created for."""
        if place.pattern is RulePattern.LITERAL:
            return self.target_of(place.origin) == place.name
        return moved_prefix(self.naming, place.origin) == place.name and any(
            _may_match(pattern, place.origin) for pattern in self.include
        )

    def _prefix_at_target(self, prefix: str) -> str | None:
        """Return the prefix at the target of all names with this prefix, if it covers no other names there."""
        moved = moved_prefix(self.naming, prefix)
        if moved is None or not self._carries_all(prefix):
            return None
        # No rule of the source may cover topics of Kafka, or our own.
        is_too_wide = RESERVED_PREFIX.startswith(moved) or moved.startswith(RESERVED_PREFIX)
        return None if is_too_wide else moved

    def _carries_all(self, prefix: str) -> bool:
        own = self.naming.source_prefix if isinstance(self.naming, PrefixNaming) else ""
        if not (prefix.startswith(own) or own.startswith(prefix)):
            return False
        narrowed = max(prefix, own, key=len)
        return any(
            pattern.kind == "prefix" and narrowed.startswith(pattern.value) for pattern in self.include
        ) and not any(_may_match(pattern, narrowed) for pattern in self.exclude)


def _may_match(pattern: NamePattern, prefix: str) -> bool:
    """Whether a pattern may match a name with this prefix."""
    match pattern.kind:
        case "literal":
            return pattern.value.startswith(prefix)
        case "prefix":
            return pattern.value.startswith(prefix) or prefix.startswith(pattern.value)
        case _:
            return True


def topic_scope(link: Link, mirrored: Mapping[SourceTopic, TargetTopic]) -> NameScope:
    """Return the scope of the topics of a link; topics that cannot be mirrored get no rules."""
    return NameScope(
        include=link.topics.include,
        exclude=link.topics.exclude,
        naming=link.topics.naming,
        known={str(source): str(target) for source, target in mirrored.items()},
        target_of=lambda name: link.topics.target_of(SourceTopic(name)),
        needs_known=True,
    )


def group_scope(link: Link, groups: Sequence[str]) -> NameScope:
    """Return the scope of the groups of a link; `groups` are those of the source. A rule may precede its group."""
    settings = link.groups

    def target_of(name: str) -> str | None:
        return settings.naming.to_target(name) if settings.matches(name) else None

    found = {name: target for name in groups if (target := target_of(name)) is not None}
    return NameScope(
        include=settings.include,
        exclude=settings.exclude,
        naming=settings.naming,
        known=found,
        target_of=target_of,
        needs_known=False,
    )
