"""Which topics a link mirrors, and under which names: literal names, prefixes and regular expressions.

A pattern is written as people write it in the configuration:

    orders            the topic of that name
    orders.*          every topic whose name starts with `orders.`; a lone `*` is every topic
    /audit-[0-9]+/    every topic whose whole name matches the regular expression (Python's `re`)

Exclusion wins over inclusion and nothing matches by default. Names starting with `__` belong to
Kafka and to Isthmus itself: they never match, whatever the patterns say.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from isthmus.errors import ConfigError
from isthmus.model.mirrormaker import MirrorMakerTopics
from isthmus.model.namespace import NamespaceNaming
from isthmus.model.naming import (
    IDENTITY,
    NAME_CHARACTERS,
    NAME_CHARACTERS_MAX,
    MirrorMakerNaming,
    NamedTopics,
    Naming,
    PrefixNaming,
    SourceTopic,
    TargetTopic,
    apply_naming,
    is_reserved,
    why_nameless,
)
from isthmus.model.offsets import EARLIEST, OffsetPolicy, RemotePolicy
from isthmus.model.problem import Problem
from isthmus.model.text.patterns import NamePattern


@dataclass(frozen=True, slots=True)
class TopicPattern(NamePattern):
    """One pattern of topics."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a pattern as people write it; `str` gives the same text back.

        :raises ConfigError: When no topic could ever have such a name, or the expression is broken.
        """
        pattern = cls.split(text)
        if pattern.kind != "regex":
            _check_name(pattern.value, text)
        if text in ("", ".", ".."):
            raise ConfigError(
                f"{text!r} is not a topic name",
                hint="Write a topic's name, a prefix* or a /regex/.",
            )
        return pattern


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSettings:
    """The topics of the source that a link mirrors, those included and not excluded, and their names at the target.

    `offsets` are the offsets of records there, and `start` is the begin of mapped topics: see `model.offsets`. `remote`
    is the policy for records that are in a remote tier alone. New topics have `replication_factor` replicas, `None` for
    as many as at the source, as far as there are brokers.

    `mirror_maker` are the topics that tools of MirrorMaker 2 expect as well, `None` if the link writes nothing for
    them.
    """

    include: tuple[TopicPattern, ...] = ()
    exclude: tuple[TopicPattern, ...] = ()
    naming: Naming = IDENTITY
    offsets: OffsetPolicy = OffsetPolicy.SAME
    start: int = EARLIEST
    remote: RemotePolicy = RemotePolicy.COPY
    replication_factor: int | None = None
    mirror_maker: MirrorMakerTopics | None = None

    def matches(self, name: SourceTopic) -> bool:
        """Return whether a topic of the source is selected, whether or not it has a name at the target."""
        theirs = self.mirror_maker
        if theirs is not None and theirs.is_carried(name):
            return self._naming.to_target(name) is not None
        return (
            not is_reserved(name)
            and not (theirs is not None and theirs.names.is_internal(name))
            and any(pattern.matches(name) for pattern in self.include)
            and not any(pattern.matches(name) for pattern in self.exclude)
        )

    def select(self, names: Iterable[str]) -> tuple[SourceTopic, ...]:
        """Return the names at the source that are selected, sorted and each once."""
        return tuple(sorted(name for name in map(SourceTopic, set(names)) if self.matches(name)))

    def name_topics(self, names: Iterable[str]) -> NamedTopics:
        """Return the mirrored ones of these topics of the source, by their names at the target."""
        return apply_naming(self._naming, self.select(names))

    def nameless(self, names: Iterable[str]) -> tuple[SourceTopic, ...]:
        """Return those of these topics that are selected but have no name at the target. Sorted."""
        return tuple(name for name in self.select(names) if self._is_nameless(name))

    def _is_nameless(self, name: SourceTopic) -> bool:
        try:
            return self._naming.to_target(name) is None
        except ConfigError:
            return False

    def why_nameless(self, name: SourceTopic) -> Problem:
        """Return the reason why the naming leaves a topic out."""
        theirs = self.mirror_maker
        is_heartbeats = theirs is not None and theirs.is_carried(name)
        return why_nameless(theirs.names.naming if theirs is not None and is_heartbeats else self.naming, name)

    def target_of(self, name: SourceTopic) -> TargetTopic | None:
        """Return the topic that a topic of the source is mirrored into, `None` if it is not."""
        return next(iter(self.name_topics([name]).sources), None)

    def find_target(self, name: str) -> TargetTopic | None:
        """Return the topic at the target for a topic named as there or as at the source, `None` without one."""
        there = TargetTopic(name)
        return there if self.source_of(there) is not None else self.target_of(SourceTopic(name))

    def may_write(self, name: TargetTopic) -> bool:
        """Return whether the link may write a topic of the target, as it may be made of a selected one."""
        try:
            found = self._naming.to_source(name)
        except ConfigError:
            return True
        return (
            self.matches(SourceTopic(found))
            if found is not None
            else not isinstance(self.naming, PrefixNaming | MirrorMakerNaming | NamespaceNaming)
        )

    def source_of(self, name: TargetTopic) -> SourceTopic | None:
        """Return the topic of the source that is mirrored into another, `None` if none is, or the name does not show
        it.
        """
        try:
            found = self._naming.to_source(name)
        except ConfigError:
            return None
        source = None if found is None else SourceTopic(found)
        return source if source is not None and self.target_of(source) == name else None

    @property
    def are_all_literal(self) -> bool:
        """Whether `literals` are all that can ever be selected."""
        is_carrying = self.mirror_maker is not None and self.mirror_maker.heartbeats
        return not is_carrying and all(pattern.kind == "literal" for pattern in self.include)

    @property
    def _naming(self) -> Naming:
        return self.naming if self.mirror_maker is None else self.mirror_maker.naming(self.naming)

    @property
    def literals(self) -> tuple[SourceTopic, ...]:
        """The names included literally that are selected: each is expected to exist. Sorted."""
        return self.select(pattern.value for pattern in self.include if pattern.kind == "literal")


def _check_name(name: str, text: str) -> None:
    if NAME_CHARACTERS.fullmatch(name) is None:
        raise ConfigError(
            f"{text!r} cannot match a topic: names consist of letters, digits, '.', '_' and '-'",
            hint="A star may only stand at the end; write /regex/ for anything else.",
        )
    if len(name) > NAME_CHARACTERS_MAX:
        raise ConfigError(
            f"{text!r} cannot match a topic: names have at most {NAME_CHARACTERS_MAX} characters",
            hint="Shorten it.",
        )
