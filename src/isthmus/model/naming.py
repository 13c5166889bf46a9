"""Names at the source and names at the target: reversible maps between them, and their use for topics.

`SourceTopic` and `TargetTopic` keep the two apart for the type checker, and so do the types of their partitions: no
name stands for both sides, even where the naming is the identity.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, Final, NewType, Protocol, Self, TypeVar

from isthmus.errors import ConfigError
from isthmus.model.problem import Problem, problem_of

SourceTopic = NewType("SourceTopic", str)
TargetTopic = NewType("TargetTopic", str)
SourceTopicPartition = tuple[SourceTopic, int]
TargetTopicPartition = tuple[TargetTopic, int]
NOWHERE: Final = TargetTopic("")
"""Stands for the topic of the target where a topic of the source has none."""
TopicT = TypeVar("TopicT", bound=str)
"""The topics of one cluster: an answer about them keeps the side that they are known to be of."""

RESERVED_PREFIX: Final = "__"
"""Names that begin with it belong to Kafka and to Isthmus itself."""
LEDGER_TOPIC: Final = "__isthmus.ledger"
OFFSETS_TOPIC: Final = "__consumer_offsets"
SCHEMAS_TOPIC: Final = "_schemas"
"""The topic of a schema registry: each is written by its own registry alone (docs/schemas.md)."""
NAME_CHARACTERS_MAX: Final = 249
NAME_CHARACTERS: Final = re.compile(r"[a-zA-Z0-9._-]*")
_PLACEHOLDER: Final = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
_NAMED_MAX: Final = 3
_DIGEST_BYTES: Final = 8
TOPIC_FIELD: Final = "topic"
GROUP_FIELD: Final = "group"
"""The placeholders for the users' names of a topic or a group."""


def is_reserved(name: str) -> bool:
    """Return whether a topic belongs to Kafka, to Isthmus, or to a schema registry: no link mirrors it, and none writes
    it.
    """
    return name.startswith(RESERVED_PREFIX) or name == SCHEMAS_TOPIC


def with_digest(name: str, *, of: str) -> str:
    """Return the name of a topic as far as it fits, and a digest of what makes it unique."""
    digest = hashlib.blake2b(of.encode(), digest_size=_DIGEST_BYTES).hexdigest()
    return f"{name[: NAME_CHARACTERS_MAX - len(digest) - 1]}.{digest}"


class Naming(Protocol):
    """A map of names. Different names must have different results."""

    def to_target(self, name: str) -> str | None:
        """Return the name at the target, `None` if there is none: then it does not belong to the link."""
        ...

    def to_source(self, name: str) -> str | None:
        """Return the name at the source, `None` if there is none or it does not follow from the name at the target."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixNaming:
    """Names that begin with `source_prefix` begin with `target_prefix` at the target; others have no counterpart
    (KIP-986). With two empty prefixes every name stays as it is.
    """

    source_prefix: str = ""
    target_prefix: str = ""

    def to_target(self, name: str) -> str | None:
        return _replace_prefix(name, self.source_prefix, self.target_prefix)

    def to_source(self, name: str) -> str | None:
        return _replace_prefix(name, self.target_prefix, self.source_prefix)


IDENTITY: Final = PrefixNaming()


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorMakerNaming:
    """`east.orders` for topic `orders` of cluster `east`, as MirrorMaker 2's DefaultReplicationPolicy names it.

    A topic that came from the target has no counterpart there: it would go in a circle. `aliases` are the clusters of
    the file: any other text before a separator belongs to a topic's own name.
    """

    source_alias: str
    target_alias: str
    separator: str = "."
    aliases: frozenset[str] = field(default=frozenset(), compare=False, repr=False)

    def to_target(self, name: str) -> str | None:
        if self.target_alias in name.split(self.separator)[:-1]:
            return None
        return f"{self.source_alias}{self.separator}{name}"

    def to_source(self, name: str) -> str | None:
        return _replace_prefix(name, f"{self.source_alias}{self.separator}", "")

    def upstream(self, name: str) -> tuple[str, ...]:
        """Return the clusters by which a topic of the source has come when it is at the target, the nearest first."""
        before = name.split(self.separator)[:-1]
        return (self.source_alias, *takewhile(self.aliases.__contains__, before))


@dataclass(frozen=True, slots=True)
class NameTemplate:
    """A pattern of names such as `{tenant}-{env}-{topic}`.

    A placeholder takes all up to the text that follows it; the last one takes the rest.
    """

    text: str
    fields: tuple[str, ...]
    _expression: re.Pattern[str] = field(repr=False, compare=False)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the template as people write it.

        :raises ConfigError: It has no placeholder, has one twice, has two with nothing between them, or holds a
        character that no topic's name may hold.
        """
        parts = _PLACEHOLDER.split(text)
        literals, fields = parts[::2], tuple(parts[1::2])
        hint = "Write it like {tenant}-{env}-{topic}."
        if not fields:
            raise ConfigError(f"{text!r} has no placeholder", hint=hint)
        if len(set(fields)) < len(fields):
            raise ConfigError(f"{text!r} has a placeholder twice", hint=hint)
        if not all(literals[1:-1]):
            raise ConfigError(f"{text!r} has two placeholders with nothing between them", hint=hint)
        if NAME_CHARACTERS.fullmatch("".join(literals)) is None:
            raise ConfigError(f"{text!r} holds a character that no topic's name may hold", hint=hint)
        expression = re.escape(literals[0])
        for name, literal in zip(fields, literals[1:], strict=True):
            following = re.escape(literal)
            taken = f"(?:(?!{following}).)+" if literal and name != fields[-1] else ".+"
            expression += f"(?P<{name}>{taken}){following}"
        return cls(text, fields, re.compile(expression))

    def __str__(self) -> str:
        return self.text

    def values_of(self, name: str) -> dict[str, str] | None:
        """Return the values of a name's placeholders, `None` if it is not of this form."""
        found = self._expression.fullmatch(name)
        return None if found is None else found.groupdict()

    def fill(self, values: Mapping[str, str]) -> str:
        """Return the name with these values in the place of the placeholders."""
        return _PLACEHOLDER.sub(lambda found: values[found[1]], self.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateNaming:
    """Names taken apart by one template and put together by another, which may leave placeholders out.

    :raises ConfigError: The target's has a placeholder that the source's has not.
    """

    source: NameTemplate
    target: NameTemplate

    def __post_init__(self) -> None:
        unknown = sorted(set(self.target.fields) - set(self.source.fields))
        if unknown:
            raise ConfigError(
                f"{self.target.text!r} has {{{unknown[0]}}}, which {self.source.text!r} has not",
                hint="A name at the target can only be made of parts of the name at the source.",
            )

    def to_target(self, name: str) -> str | None:
        values = self.source.values_of(name)
        return None if values is None else self.target.fill(values)

    def to_source(self, name: str) -> str | None:
        values = self.target.values_of(name)
        if values is None or not set(self.source.fields) <= values.keys():
            return None
        return self.source.fill(values)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogicalNames:
    """The names that users give the topics and groups of a cluster whose technical names are made by templates: the
    value of `{topic}` and `{group}`. A name that does not fit has no other name.
    """

    topics: NameTemplate | None = None
    groups: NameTemplate | None = None

    def topic(self, name: str) -> str:
        """The logical name of a topic."""
        return _logical(self.topics, name, TOPIC_FIELD)

    def group(self, name: str) -> str:
        """The logical name of a group."""
        return _logical(self.groups, name, GROUP_FIELD)


NO_NAMES: Final = LogicalNames()


def _logical(template: NameTemplate | None, name: str, field_name: str) -> str:
    values = None if template is None else template.values_of(name)
    return name if values is None else values.get(field_name, name)


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonNaming:
    """A class of the operator's own, `module:Class`. What it raises for a topic becomes the problem of that topic."""

    spec: str
    instance: Naming = field(repr=False, compare=False)

    def to_target(self, name: str) -> str | None:
        return self._call(self.instance.to_target, name)

    def to_source(self, name: str) -> str | None:
        return self._call(self.instance.to_source, name)

    def _call(self, way: Callable[[str], Any], name: str) -> str | None:
        try:
            found = way(name)
        except Exception as error:
            raise ConfigError(
                f"{self.spec} cannot name {name}: {type(error).__name__}: {error}",
                hint="Mend the class: to_target and to_source take a name, and return one or None.",
            ) from error
        if found is None or isinstance(found, str):
            return found
        raise ConfigError(
            f"{self.spec} names {name} by a {type(found).__name__}", hint="A name is a text, or None for none."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedTopics:
    """The topics of a link, by their names at the target. Topics in `refused` must not be written."""

    sources: Mapping[TargetTopic, SourceTopic] = field(default_factory=dict)
    refused: Mapping[TargetTopic, Problem] = field(default_factory=dict)

    def only(self, names: Iterable[TargetTopic]) -> NamedTopics:
        """Return a copy with only the topics of these names."""
        wanted = set(names)
        return NamedTopics(
            sources={name: source for name, source in self.sources.items() if name in wanted},
            refused={name: problem for name, problem in self.refused.items() if name in wanted},
        )


def apply_naming(naming: Naming, names: Iterable[SourceTopic]) -> NamedTopics:
    """Apply a naming to these topics of the source; those without a counterpart are left out."""
    by_target: dict[TargetTopic, list[SourceTopic]] = {}
    refused: dict[TargetTopic, Problem] = {}
    for name in sorted(set(names)):
        try:
            found = naming.to_target(name)
            if found is None:
                continue
            target = TargetTopic(found)
            problem = _refusal(naming, name, target)
        except ConfigError as error:
            target, problem = TargetTopic(name), problem_of(error)
        by_target.setdefault(target, []).append(name)
        if problem is not None:
            refused[target] = problem
    for target, sources in by_target.items():
        if len(sources) > 1:
            shown = ", ".join(sources[:_NAMED_MAX]) + (" and more" if len(sources) > _NAMED_MAX else "")
            refused[target] = Problem(
                f"{shown} would all become {target}",
                "Exclude all but one of them, or give them a naming that keeps them apart.",
            )
    return NamedTopics(sources={target: sources[0] for target, sources in by_target.items()}, refused=refused)


def _refusal(naming: Naming, source: SourceTopic, target: TargetTopic) -> Problem | None:
    """Return the reason why a topic cannot have this name at the target."""
    if is_reserved(target):
        hint = (
            f"Names that begin with {RESERVED_PREFIX} belong to Kafka and to Isthmus, {SCHEMAS_TOPIC} to a schema "
            "registry: exclude it, or name it otherwise."
        )
        return Problem(f"{source} would become {target}, which is reserved", hint)
    is_legal = NAME_CHARACTERS.fullmatch(target) is not None and target not in ("", ".", "..")
    if not is_legal or len(target) > NAME_CHARACTERS_MAX:
        return Problem(
            f"{source} would become {target!r}, which Kafka refuses",
            f"A topic's name has at most {NAME_CHARACTERS_MAX} letters, digits, '.', '_' and '-'.",
        )
    back = naming.to_source(target)
    if back is not None and back != source:
        return Problem(
            f"{source} would become {target}, which is {back} at the source",
            "A naming has to be reversible: exclude the topic, or have the naming keep such names apart.",
        )
    return None


def why_nameless(naming: Naming, name: str) -> Problem:
    """Return the reason why a topic of the source has no name at the target by a naming."""
    match naming:
        case MirrorMakerNaming(target_alias=alias, separator=separator):
            why = f"{alias}{separator} is in its name: it came from {alias}, and would go back there in a circle"
        case PrefixNaming(source_prefix=prefix):
            why = f"its name does not begin with source_prefix {prefix!r}"
        case TemplateNaming(source=template):
            why = f"its name is not of the form {template}"
        case PythonNaming(spec=spec):
            why = f"{spec} gives it none"
        case _:
            why = "it is in no namespace of the link"
    return Problem(
        f"it has no name at the target: {why}", "Take it out of topics.include, or give it a name by topics.naming."
    )


def _replace_prefix(name: str, before: str, after: str) -> str | None:
    return after + name.removeprefix(before) if name.startswith(before) else None


def moved_prefix(naming: Naming, prefix: str) -> str | None:
    """Return a prefix at the target, `None` if the naming has no prefixes."""
    match naming:
        case PrefixNaming(source_prefix=own, target_prefix=theirs):
            if prefix.startswith(own):
                return theirs + prefix.removeprefix(own)
            return theirs if own.startswith(prefix) else None
        case MirrorMakerNaming(source_alias=alias, separator=separator):
            return f"{alias}{separator}{prefix}"
        case _:
            return None
